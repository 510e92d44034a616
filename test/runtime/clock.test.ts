import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followClock, makeClockMemory, moveClock, systemClock } from '#runtime/clock.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

test('the simulated clock runs timers by due time, and timers with equal times in the order of creation', () => {
  const clock = simulatedClock(1_000)
  const ran: string[] = []
  clock.after(20, () => ran.push(`b at ${clock.nowMs()}`))
  clock.after(10, () => {
    ran.push(`a at ${clock.nowMs()}`)
    clock.after(5, () => ran.push(`nested at ${clock.nowMs()}`))
  })
  clock.after(20, () => ran.push(`c at ${clock.nowMs()}`))
  clock.after(31, () => ran.push('too early'))
  clock.advance(30)
  assert.deepEqual(ran, ['a at 1010', 'nested at 1015', 'b at 1020', 'c at 1020'])
  assert.equal(clock.nowMs(), 1_030)
  assert.equal(clock.pending, 1)
})

test('a cancelled timer does not run', () => {
  const clock = simulatedClock(0)
  let ran = false
  const cancel = clock.after(1, () => {
    ran = true
  })
  cancel()
  clock.advance(10)
  assert.equal(ran, false)
})

test('the system clock returns Unix milliseconds and runs timers', async () => {
  const before = Date.now()
  assert(systemClock.nowMs() >= before)
  const hold = setTimeout(() => {}, 60_000)
  await new Promise<void>((resolve) => systemClock.after(1, resolve))
  clearTimeout(hold)
})

test('the system clock adds the offset in its shared memory to the machine’s time', (t) => {
  const memory = makeClockMemory()
  followClock(memory)
  t.after(() => followClock(makeClockMemory()))
  const behind = Date.now()
  assert.ok(systemClock.nowMs() - behind < 60_000)
  moveClock(memory, 7_200)
  assert.ok(systemClock.nowMs() - behind >= 7_200_000)
  assert.ok(systemClock.nowMs() - behind < 7_260_000)
})
