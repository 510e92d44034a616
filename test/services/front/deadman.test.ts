import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import { reject } from '#domain/rejection.ts'
import { openDeadman } from '#services/front/deadman.ts'
import type { WriteQueueRef } from '#store/writes/ask-write.ts'
import { traderNamed } from '../../support/orders.ts'

type WriteTask = Parameters<WriteQueueRef['ask']>[1]

test('a delegate’s dead-man switch cancels orders only on chains where the delegate is still appointed', async () => {
  const account = traderNamed('ann')
  const delegate = traderNamed('bot')
  const due: DeadmanSwitch = { keyId: 'k1', address: account, delegate, dueAtMs: 1_000 }
  let acts: readonly number[] | 'unknown' = 'unknown'
  let turn: () => void = () => {}
  const cancelled: [string, readonly number[] | undefined][] = []
  const written: WriteTask[] = []
  const store = {
    async ask(_type: 'Write', task: WriteTask) {
      written.push(task)
      return { ok: true, answer: true }
    },
  }
  const switches = openDeadman({
    store,
    query: (async () => [due]) as never,
    gateway: {
      async cancelAll(trader, { chainIds }) {
        cancelled.push([trader, chainIds])
        return { orderHashes: [], pending: [], count: 0 }
      },
    },
    async actsOn(of, by) {
      assert.deepEqual([of, by], [account, delegate])
      return acts === 'unknown' ? reject('OVERLOADED') : acts
    },
    clock: { nowMs: () => 2_000 } as never,
    log: { info() {}, warn() {} } as never,
    every: ((_ms: number, then: () => void) => {
      turn = then
    }) as never,
  })
  const afterTurn = async () => {
    turn()
    await new Promise((resolve) => setImmediate(resolve))
  }
  // While the delegations cannot be read, the dead-man switch neither cancels orders nor is removed.
  await afterTurn()
  assert.deepEqual([cancelled, written], [[], []])
  acts = []
  await afterTurn()
  assert.deepEqual([cancelled, written.map(({ write }) => write)], [[], ['clearFiredDeadman']])
  acts = [5]
  await afterTurn()
  assert.deepEqual(cancelled, [[account, [5]]])
  assert.equal(await switches.set(due, 3_000), undefined)
  assert.deepEqual(written.at(-1), { write: 'setDeadman', args: due })
})
