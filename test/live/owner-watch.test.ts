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

test('a market thread’s confirmation of its ownership is valid for one second after the front requested it', async () => {
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

test('without a market thread’s confirmation, reads are stale after one second and the front is unready after 5 s', async () => {
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

test('a market thread that answers a confirmation request with an error, or not at all, stays unconfirmed', async () => {
  const { watch, asked } = watched()
  for (const answer of [reject('OUTCOME_UNKNOWN'), reject('OVERLOADED'), { unanswered: 'late' }]) {
    const done = watch.ask()
    asked.at(-1)?.resolve(answer)
    await done
    assert.equal(watch.isConfirmed(), false)
  }
})

test('a market thread’s confirmation over a closed connection is ignored, and requested again at once over the new connection', async () => {
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
