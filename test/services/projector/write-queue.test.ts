/**
 * Tests that the write queue runs one write at a time, answers each write with its result, and limits the number of
 * waiting writes.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WRITES_WAITING_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import { systemClock } from '#runtime/clock.ts'
import { serve } from '#runtime/serve.ts'
import {
  newWriteQueue,
  type WriteQueueProtocol,
  type WriteQueueState,
  writeQueue,
} from '#services/projector/write-queue.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import type { WriteTask } from '#store/writes/writes.ts'

function open(
  run: (task: WriteTask) => Promise<StoreReply>,
  together?: (tasks: readonly WriteTask[]) => Promise<StoreReply[]>,
) {
  const state = newWriteQueue(
    together ?? (async ([task]) => [await run(task!)]),
    ({ write }) => together !== undefined && write !== 'alone',
  )
  const served = serve<WriteQueueState, WriteQueueProtocol>({
    behaviour: writeQueue,
    select: () => ({ state }),
    clock: systemClock,
    mailboxMax: 100_000,
    batchMax: 1_000,
    full: reject('OVERLOADED'),
  })
  const waiting = new Map<number, (answer: unknown) => void>()
  let last = 0
  const channel = { reply: (id: number, answer: unknown) => waiting.get(id)?.(answer) }
  return (write: string): Promise<unknown> =>
    new Promise((resolve) => {
      waiting.set(++last, resolve)
      served.hear('Write', { write, args: {} }, last, channel as never)
    })
}

test('writes to the database are done in order, one at a time, and a failed write does not stop later ones', async () => {
  const begun: string[] = []
  let underWay = 0
  const ask = open(async ({ write }) => {
    begun.push(write)
    assert.equal(++underWay, 1)
    await new Promise((resolve) => setImmediate(resolve))
    underWay--
    if (write === 'b') throw new Error('away')
    return { ok: true, answer: write.toUpperCase() }
  })
  const replies = await Promise.all(['a', 'b', 'c'].map(ask))
  assert.deepEqual(begun, ['a', 'b', 'c'])
  assert.deepEqual(replies, [
    { ok: true, answer: 'A' },
    { ok: false, code: 'STORE_FAILED', message: 'Error: away', retryable: false },
    { ok: true, answer: 'C' },
  ])
})

test('a write above the queue limit is refused, and the writes before it are done', async () => {
  const gate = Promise.withResolvers<void>()
  const ask = open(async () => {
    await gate.promise
    return { ok: true, answer: null }
  })
  const asked = Array.from({ length: WRITES_WAITING_MAX + 1 }, (_, index) => ask(String(index)))
  assert.deepEqual(await ask('too many'), reject('OVERLOADED'))
  gate.resolve()
  const replies = await Promise.all(asked)
  assert.ok(replies.every((reply) => (reply as StoreReply).ok))
})

test('the write queue combines consecutive writes into one commit, except kinds that need their own commit', async () => {
  const commits: string[][] = []
  const ask = open(
    async () => assert.fail(),
    async (tasks) => {
      commits.push(tasks.map(({ write }) => write))
      await new Promise((resolve) => setImmediate(resolve))
      return tasks.map(({ write }) => ({ ok: true, answer: write.toUpperCase() }))
    },
  )
  const names = ['a', 'b', 'c', 'alone', 'alone', 'd', 'e']
  const replies = await Promise.all(names.map(ask))
  assert.deepEqual(
    replies,
    names.map((name) => ({ ok: true, answer: name.toUpperCase() })),
  )
  assert.deepEqual(commits, [['a'], ['b', 'c'], ['alone'], ['alone'], ['d', 'e']])
})
