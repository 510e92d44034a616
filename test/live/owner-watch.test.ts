import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reject } from '#domain/rejection.ts'
import { makeOwnerWatch } from '#live/owner-watch.ts'

function watched() {
  let nowMs = 0
  const asked: PromiseWithResolvers<unknown>[] = []
  const thread = {
    isOpen: true,
    ask() {
      const question = Promise.withResolvers<unknown>()
      asked.push(question)
      return question.promise
    },
  }
  const watch = makeOwnerWatch(thread as never, () => nowMs)
  const wait = (ms: number): void => {
    nowMs += ms
  }
  return { watch, asked, wait }
}

test('an owner is confirmed for one second from the request, not from the answer', async () => {
  const { watch, asked, wait } = watched()
  assert.equal(watch.isConfirmed(), false)
  const done = watch.ask()
  wait(600)
  asked[0]?.resolve({ owner: true })
  await done
  assert.equal(watch.isConfirmed(), true)
  wait(401)
  assert.equal(watch.isConfirmed(), false)
})

test('an owner that is unsure, or does not answer, is not confirmed', async () => {
  const { watch, asked } = watched()
  for (const answer of [reject('OUTCOME_UNKNOWN'), reject('OVERLOADED'), { unanswered: 'late' }]) {
    const done = watch.ask()
    asked.at(-1)?.resolve(answer)
    await done
    assert.equal(watch.isConfirmed(), false)
  }
})

test('an answer over a closed link confirms nothing, and the next link is queried at once', async () => {
  const { watch, asked } = watched()
  const old = watch.ask()
  void watch.ask()
  assert.equal(asked.length, 1, 'one question at a time')
  watch.changed()
  const fresh = watch.ask()
  assert.equal(asked.length, 2)
  asked[0]?.resolve({ owner: true })
  await old
  assert.equal(watch.isConfirmed(), false)
  asked[1]?.resolve({ owner: true })
  await fresh
  assert.equal(watch.isConfirmed(), true)
})
