import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connection } from '#stream/connection.ts'
import { makeIntake, TURN_UNITS } from '#stream/intake.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

function fixture(unitsOf: (name: string) => number) {
  const handled: string[] = []
  const emptied: string[] = []
  const intake = makeIntake({
    handle(_, message) {
      const name = Buffer.from(message).toString()
      handled.push(name)
      return unitsOf(name)
    },
    emptied: ({ session }) => void emptied.push(session),
  })
  const connection = (session: string) => ({ session, frames: [] }) as unknown as Connection
  const take = (from: Connection, name: string) =>
    intake.take(from, new TextEncoder().encode(name).buffer as ArrayBuffer, false)
  return { intake, handled, emptied, connection, take }
}

test('frames above the budget of a turn wait for the next ones, in order', async () => {
  const { handled, emptied, connection, take } = fixture(() => 10)
  const one = connection('one')
  const names = Array.from({ length: 35 }, (_, index) => `${index}`)
  for (const name of names) assert(take(one, name))
  assert.equal(handled.length, TURN_UNITS / 10)
  await turn()
  assert.equal(handled.length, (2 * TURN_UNITS) / 10)
  // A frame that comes now goes behind those that wait.
  take(one, 'last')
  while (one.frames.length > 0) await turn()
  assert.deepEqual(handled, [...names, 'last'])
  assert.deepEqual(emptied, ['one'])
  await turn()
  take(one, 'later')
  assert.equal(handled.at(-1), 'later', 'nothing waits: it is handled at once')
})

test('a frame that arrives after a full turn is handled', async () => {
  const { handled, connection, take } = fixture(() => TURN_UNITS)
  const one = connection('one')
  const names = ['first', 'second', 'third', 'fourth']
  for (const name of names) {
    take(one, name)
    if (name === 'second' || name === 'third') await turn()
  }
  for (let count = 0; count < names.length; count++) await turn()
  assert.deepEqual(handled, names)
})

test('a connection with thousands of frames does not delay another one', async () => {
  const { intake, handled, connection, take } = fixture(() => 50)
  const [greedy, modest] = [connection('greedy'), connection('modest')]
  for (let count = 0; count < 1_000; count++) take(greedy, `greedy ${count}`)
  take(modest, 'modest')
  await turn()
  await turn()
  assert(handled.includes('modest'), handled.join())
  assert(handled.length <= 6)
  intake.forget(greedy)
  await turn()
  await turn()
  assert(handled.length <= 8, 'what a closed connection has sent is dropped')
})

test('the bytes of waiting frames of all connections are limited', async () => {
  const { intake, connection } = fixture(() => TURN_UNITS)
  const many = connection('many')
  const frame = new ArrayBuffer(1024 * 1024)
  let taken = 0
  while (intake.take(many, frame, false)) taken++
  assert.equal(taken, 17, 'one is handled, 16 MiB wait')
  intake.forget(many)
  assert(intake.take(many, frame, false))
  intake.forget(many)
})
