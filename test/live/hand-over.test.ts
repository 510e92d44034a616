import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeHandOver } from '#live/hand-over.ts'

const DEADLINE_MS = 10_000

function start() {
  const world = { nowMs: 5_000, current: true }
  const handOver = makeHandOver(
    { deadlineMs: DEADLINE_MS, nowMs: () => world.nowMs },
    () => world.current,
  )
  return { world, handOver }
}

test('a market thread’s hand-over lasts from its announcement until the new thread’s markets are loaded', () => {
  const { world, handOver } = start()
  handOver.linked()
  assert.equal(handOver.isUnderWay(), false)
  handOver.began()
  assert.equal(handOver.isUnderWay(), true, 'the thread before is still linked and current')
  world.current = false
  world.nowMs += 2_000
  assert.equal(handOver.isUnderWay(), true)
  handOver.linked()
  assert.equal(handOver.isUnderWay(), true, 'the next one is still loading')
  world.current = true
  assert.equal(handOver.isUnderWay(), false)
  world.current = false
  assert.equal(handOver.isUnderWay(), false, 'the death of the next owner is no hand-over')
})

test('if no successor takes over a market thread, the hand-over ends after the request deadline', () => {
  const { world, handOver } = start()
  handOver.began()
  world.current = false
  world.nowMs += DEADLINE_MS - 1
  assert.equal(handOver.isUnderWay(), true)
  world.nowMs++
  assert.equal(handOver.isUnderWay(), false)
  handOver.began()
  assert.equal(handOver.isUnderWay(), true, 'the next announcement has a deadline of its own')
})

test('the unannounced loss of a market thread does not count as a hand-over', () => {
  const { world, handOver } = start()
  world.current = false
  assert.equal(handOver.isUnderWay(), false)
  handOver.linked()
  assert.equal(handOver.isUnderWay(), false)
})
