import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeFairTurns, SLICE_MS } from '#http/fair-turns.ts'
import type { Connection } from '#stream/connection.ts'
import { makeIntake } from '#stream/intake.ts'

/** Makes an intake (the queue of received frames). Each frame takes a quarter of a turn's time (`SLICE_MS`). */
function fixture() {
  const handled: string[] = []
  const emptied: string[] = []
  let nowMs = 0
  const slices: (() => void)[] = []
  const turns = makeFairTurns({ nowMs: () => nowMs, soon: (slice) => void slices.push(slice) })
  const intake = makeIntake({
    turns,
    handle(_, message) {
      handled.push(Buffer.from(message).toString())
      nowMs += SLICE_MS / 4
    },
    refuse: () => undefined,
    emptied: ({ session }) => void emptied.push(session),
  })
  const connection = (session: string, ip: string) =>
    ({ session, ip, frames: [] }) as unknown as Connection
  const take = (from: Connection, name: string) =>
    intake.take(from, new TextEncoder().encode(name).buffer as ArrayBuffer, false)
  return { intake, handled, emptied, connection, take, turn: () => slices.shift()?.() }
}

test('frames above the limit per event-loop turn are handled in later turns, in the order of arrival', () => {
  const { handled, emptied, connection, take, turn } = fixture()
  const one = connection('one', 'a')
  const names = Array.from({ length: 14 }, (_, index) => `${index}`)
  for (const name of names) assert(take(one, name))
  assert.equal(handled.length, 4)
  turn()
  assert.equal(handled.length, 8)
  // A new frame waits behind the earlier ones.
  take(one, 'last')
  while (one.frames.length > 0) turn()
  assert.deepEqual(handled, [...names, 'last'])
  assert.deepEqual(emptied, ['one'])
})

test('an IP address with thousands of frames on many connections does not delay another IP address', () => {
  const { handled, connection, take } = fixture()
  for (let count = 0; count < 900; count++) take(connection(`${count}`, 'greedy'), 'greedy')
  const before = handled.length
  take(connection('modest', 'b'), 'modest')
  assert.deepEqual(handled.slice(before), ['modest'])
})

test('the waiting frames of a connection that has closed are dropped', () => {
  const { intake, handled, emptied, connection, take, turn } = fixture()
  const one = connection('one', 'a')
  for (let count = 0; count < 20; count++) take(one, 'frame')
  intake.forget(one)
  const before = handled.length
  for (let count = 0; count < 10; count++) turn()
  assert.equal(handled.length, before)
  assert.deepEqual(emptied, [])
})
