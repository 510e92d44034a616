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

test('a market thread’s ownership confirmation expires one second after the front requested it', async () => {
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

test('without an ownership confirmation, reads are stale after one second and the front is unready after five', async () => {
  const { watch, asked, wait } = watched()
  assert.equal(watch.isReady(), false)
  const done = watch.ask()
  asked[0]?.resolve({ owner: true })
  await done
  wait(5_000)
  assert.deepEqual([watch.isConfirmed(), watch.isReady()], [false, true])
  wait(1)
  assert.equal(watch.isReady(), false)
  const again = watch.ask()
  asked[1]?.resolve({ owner: true })
  await again
  assert.equal(watch.isReady(), true)
  watch.changed()
  assert.equal(watch.isReady(), false, 'a link that has ended counts at once')
})

test('a market thread’s ownership stays unconfirmed if the thread refuses or ignores the request for confirmation', async () => {
  const { watch, asked } = watched()
  for (const answer of [reject('OUTCOME_UNKNOWN'), reject('OVERLOADED'), { unanswered: 'late' }]) {
    const done = watch.ask()
    asked.at(-1)?.resolve(answer)
    await done
    assert.equal(watch.isConfirmed(), false)
  }
})

test('after a reconnect, an ownership confirmation from the old connection is ignored and a new one is requested', async () => {
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
