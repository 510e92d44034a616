import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clockViews, makeClockMemory, moveClock, readClock } from '#runtime/clock.ts'
import { type ClockUpdate, guardClock } from '#runtime/clock-guard.ts'
import { randomFrom } from '../support/random.ts'

const START_MS = 1_800_000_000_000
const BOUND_MS = 60_000
const CONFIRM_MS = 300_000

function guarded() {
  let wallMs = START_MS
  let monotonicMs = 5_000.25
  const memory = makeClockMemory()
  const said: ClockUpdate[] = []
  const machine = { wallMs: () => wallMs, monotonicMs: () => monotonicMs }
  const guard = guardClock(memory, {
    boundMs: BOUND_MS,
    confirmMs: CONFIRM_MS,
    machine,
    say: (update) => said.push(update),
  })
  return {
    memory,
    guard,
    said,
    /** Advances both clocks second by second; `rate` is the speed of the wall clock. */
    pass(seconds: number, rate = 1) {
      for (let second = 0; second < seconds; second++) {
        wallMs += 1_000 * rate
        monotonicMs += 1_000
        guard.look()
      }
    },
    jump: (ms: number) => {
      wallMs += ms
    },
    wall: () => wallMs,
    /** Returns the time since the start by the guarded clock, as every thread reads it. */
    now: () => readClock(clockViews(memory), machine) - START_MS,
  }
}

test('the exchange’s clock follows small corrections and a slow drift of the machine’s wall clock', () => {
  const { pass, jump, now, said, wall } = guarded()
  pass(100)
  assert.equal(now(), 100_000)
  jump(20_000)
  assert.equal(now(), 120_000)
  pass(10)
  jump(-5_000)
  assert.equal(now(), 125_000)
  // The wall clock runs half a percent fast, and so gains seven minutes a day. The guarded clock follows it all the
  // time.
  pass(86_400, 1.005)
  assert.equal(now(), wall() - START_MS)
  assert.deepEqual(said, [])
})

test('if the wall clock jumps by an hour and jumps back, the exchange’s clock follows neither jump', () => {
  const { pass, jump, now, said, guard } = guarded()
  pass(10)
  jump(3_600_000)
  assert.equal(now(), 10_000)
  assert.equal(guard.isJumped, false)
  pass(30)
  assert.equal(now(), 40_000)
  assert.equal(guard.isJumped, true)
  assert.deepEqual(said, [{ type: 'jumped', byMs: 3_600_000 }])
  // The wall clock jumps back to the right time. The guarded clock has followed neither jump.
  jump(-3_600_000)
  pass(1)
  assert.equal(now(), 41_000)
  assert.deepEqual(said.slice(1), [{ type: 'back' }])
})

test('the exchange’s clock accepts a jump of the wall clock that persists for minutes, as after a laptop’s suspension', () => {
  const { pass, jump, now, said } = guarded()
  jump(8 * 3_600_000)
  pass(300)
  assert.equal(now(), 300_000)
  pass(1)
  assert.equal(now(), 8 * 3_600_000 + 301_000)
  assert.deepEqual(said.at(-1), { type: 'confirmed', byMs: 8 * 3_600_000, by: 'time' })
})

test('if the wall clock jumps again and again, the exchange’s clock follows none of these jumps', () => {
  const { pass, jump, now, said } = guarded()
  for (let at = 0; at < 10; at++) {
    jump(at % 2 === 0 ? 7_200_000 : 600_000)
    pass(100)
    assert.equal(now(), (at + 1) * 100_000)
  }
  assert.equal(said.filter(({ type }) => type === 'jumped').length, 10)
  assert.ok(!said.some(({ type }) => type === 'confirmed'))
})

test('a new block’s time can confirm or contradict a jump of the wall clock', () => {
  const { pass, jump, now, said, guard, wall } = guarded()
  jump(3_600_000)
  pass(5)
  // The newest block is older than the jump, so it cannot confirm the jump.
  guard.received(START_MS)
  guard.received(START_MS)
  assert.equal(now(), 5_000)
  pass(200)
  guard.received(START_MS + 200_000)
  pass(200)
  guard.received(START_MS + 400_000)
  pass(200)
  assert.equal(now(), 605_000, 'while the chain contradicts, no time is long enough')
  guard.received(wall() - 10_000)
  assert.equal(now(), 3_600_000 + 605_000)
  assert.deepEqual(said.at(-1), { type: 'confirmed', byMs: 3_600_000, by: 'chain' })
})

test('the exchange’s clock follows a backward jump only after minutes, and always adds the chain’s time offset', () => {
  const { pass, jump, now, memory } = guarded()
  pass(10)
  jump(-600_000)
  assert.equal(now(), 10_000)
  moveClock(memory, 7_200)
  assert.equal(now(), 7_210_000)
  pass(301)
  assert.equal(now(), 7_200_000 - 600_000 + 311_000)
})

test('after random jumps of the wall clock, the exchange’s clock has made no large unconfirmed jump', () => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  const random = randomFrom(seed)
  const { pass, jump, now, said } = guarded()
  let before = now()
  for (let step = 0; step < 3_000; step++) {
    if (random.chance(0.05)) jump(random.int(-20_000_000, 20_000_000))
    const known = said.length
    pass(1)
    const isConfirmed = said.slice(known).some(({ type }) => type === 'confirmed')
    const moved = now() - before
    // The guarded clock may follow a jump within the bound at once, and a larger jump only after a confirmation.
    assert.ok(isConfirmed || Math.abs(moved) <= 2 * BOUND_MS + 2_000, `TEST_SEED=${seed}: ${moved}`)
    assert.ok(Number.isInteger(now()), `TEST_SEED=${seed}`)
    before = now()
  }
})
