import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { serve } from '#runtime/serve.ts'
import {
  newStore,
  type StoreDatabase,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
  whyBehind,
} from '#services/projector/projector.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'
import { buy, sell } from '../../support/orders.ts'
import { simulatedClock } from '../../support/simulated-clock.ts'
import { given } from '../market/market-fixture.ts'

const away = new Fault('STORE_UNAVAILABLE', 'no server answers', { retryable: true })
const foreign = new Fault('STORE_FOREIGN_LOG', 'another log', { retryable: false })

/** Makes a store with a log in memory and a database that the test controls. */
function following(
  count: number,
  failures: {
    claim?: Fault[]
    write?: Fault[]
    read?: Fault[]
    /** Errors by partition. Every write of a listed partition fails with the error of that partition. */
    refuse?: Readonly<Record<number, Fault>>
    /**
     * Writes that are stored although the caller gets an error. Before the error, `more` events are appended to the
     * log.
     */
    unanswered?: { more: number }[]
  },
  partitions = 1,
) {
  const market = given()
  for (let n = 1; n < count; n++) market.place(buy('YES').named(`o${n}`))
  const events = [...market.events]
  const stands = Array<number>(partitions).fill(0)
  let looks = 0
  const append = () => {
    market.place(buy('YES').named(`o${events.length}`))
    events.push(...market.events.slice(events.length))
  }
  const written: ProjectionBatch[] = []
  const said: StoreEvent[] = []
  const log: LogReader<MarketEvent> = {
    id: 'log',
    partitions,
    read(_partition, fromOffset, limit) {
      const fault = failures.read?.shift()
      if (fault !== undefined) throw fault
      const found = events.slice(fromOffset - 1, fromOffset - 1 + limit)
      return found.map((event, index) => ({ offset: fromOffset + index, event }))
    },
    firstOffset: () => 1,
    lastOffset() {
      looks++
      return events.length
    },
    close: async () => {},
  }
  const database: StoreDatabase = {
    async claim() {
      const fault = failures.claim?.shift()
      if (fault !== undefined) throw fault
      return stands.map((offset, partition) => ({ partition, offset }))
    },
    async write(batch) {
      const fault = failures.refuse?.[batch.partition] ?? failures.write?.shift()
      if (fault !== undefined) throw fault
      const silent = failures.unanswered?.shift()
      // Compares the batch with the stored position, as the database does.
      if (batch.from === stands[batch.partition]) {
        stands[batch.partition] = batch.to
        written.push(batch)
      }
      if (silent !== undefined) {
        for (let n = 0; n < silent.more; n++) append()
        throw away
      }
      return { offset: stands[batch.partition] ?? 0 }
    },
  }
  const state = newStore(log, database)
  const clock = simulatedClock(0)
  const actor = serve<StoreState, StoreProtocol, StoreEvent>({
    behaviour: store,
    select: () => ({ state }),
    clock,
    mailboxMax: 100,
    batchMax: 100,
    full: undefined,
    say: (events_) => void said.push(...events_),
  })
  const look = async () => {
    actor.hear('Tick', {}, 0, undefined)
    await actor.drained()
  }
  const later = async () => {
    clock.advance(1_000)
    await actor.drained()
  }
  return { state, written, said, actor, look, later, events, looks: () => looks }
}

test('the projector announces new trades only after their rows are written', async () => {
  const { look, said, events } = following(1, {})
  const market = given()
  market.place(sell('YES').named('s'))
  events.push(...market.events.slice(1))
  await look()
  assert(!said.some(({ type }) => type === 'TradesWritten'))
  const resting = market.events.length
  market.place(buy('YES').named('b'))
  events.push(...market.events.slice(resting))
  await look()
  assert.deepEqual(said.map(({ type }) => type).slice(-2), ['Projected', 'TradesWritten'])
})

test('the projector first reserves the database for its log, then writes each batch from the last written offset', async () => {
  const { look, written, said, events } = following(5_000, {})
  await look()
  assert.deepEqual(
    written.map(({ from, to }) => [from, to]),
    [
      [0, 2_000],
      [2_000, 4_000],
      [4_000, 5_000],
    ],
  )
  assert.equal(events.length, 5_000)
  assert.deepEqual(
    said.map((event) => (event.type === 'Projected' ? event.offset : event.type)),
    [0, 2_000, 4_000, 5_000],
  )
})

test('the projector writes nothing until it has reserved the database for its log, and retries the reservation', async () => {
  const { look, later, written, state } = following(3, { claim: [away, away] })
  await look()
  assert.equal(whyBehind(state), 'no server answers')
  await later()
  assert.equal(written.length, 0)
  await later()
  assert.equal(whyBehind(state), '')
  assert.equal(written.length, 1)
})

test('the projector retries a failed write from the same offset', async () => {
  const { look, later, written, state } = following(3, { write: [away] })
  await look()
  assert.equal(whyBehind(state), 'no server answers')
  await later()
  assert.deepEqual(
    written.map(({ from, to }) => [from, to]),
    [[0, 3]],
  )
  assert.equal(whyBehind(state), '')
})

test('if the answer to a successful write is lost, the projector does not write the events again', async () => {
  const { look, later, written, state } = following(3, { unanswered: [{ more: 4 }] })
  await look()
  assert.equal(whyBehind(state), 'no server answers')
  await later()
  assert.deepEqual(
    written.map(({ from, to }) => [from, to]),
    [
      [0, 3],
      [3, 7],
    ],
  )
  assert.equal(whyBehind(state), '')
})

test('the projector retries later if it cannot read the log', async () => {
  const fault = new Fault('LOG_READ_FAILED', 'the disk is busy', { retryable: true })
  const { look, later, written, state } = following(3, { read: [fault] })
  await look()
  assert.equal(whyBehind(state), 'the disk is busy')
  await later()
  assert.equal(written.length, 1)
})

test('the projector stops writing if the database belongs to another log', async () => {
  for (const failures of [{ claim: [foreign] }, { write: [foreign] }, { read: [foreign] }]) {
    const { look, later, written, state } = following(3, failures)
    await look()
    await later()
    await look()
    assert.equal(whyBehind(state), 'another log')
    assert.equal(written.length, 0)
  }
})

test('a row that the database refuses stops the projection of its own partition only', async () => {
  const refused = new Fault('STORE_CONSTRAINT', 'a row is refused', { retryable: false })
  const { look, later, written, state, events } = following(3, { refuse: { 1: refused } }, 3)
  await look()
  assert.equal(whyBehind(state), 'a row is refused')
  events.push(events.at(-1)!)
  await later()
  await look()
  assert.deepEqual(
    written.map(({ partition, from, to }) => [partition, from, to]),
    [
      [0, 0, 3],
      [2, 0, 3],
      [0, 3, 4],
      [2, 3, 4],
    ],
  )
  assert.equal(whyBehind(state), 'a row is refused', 'it stays behind, and says so')
})

test('the projector applies reported log positions of its own partitions, and ignores those of other partitions', async () => {
  const { actor, look, state } = following(3, {})
  await look()
  const offsets = [
    [0, 3],
    [7, 9],
  ]
  actor.hear('Appended', { offsets }, 0, undefined)
  await actor.drained()
  const known = [...state.partitions].map(([partition, { projected, appended }]) => [
    partition,
    projected,
    appended,
  ])
  assert.deepEqual(known, [[0, 3, 3]])
})

test('the projector collects events for a moment, or until a batch is full, before it writes the events', async () => {
  const { actor, look, later, written, events } = following(3, {})
  await look()
  const append = async (count: number) => {
    const last = events.at(-1)
    assert(last !== undefined)
    for (let n = 0; n < count; n++) events.push(last)
    actor.hear('Appended', { offsets: [[0, events.length]] }, 0, undefined)
    await actor.drained()
  }
  await append(2)
  await append(1)
  assert.equal(written.length, 1)
  await later()
  assert.deepEqual(
    written.map(({ from, to }) => [from, to]),
    [
      [0, 3],
      [3, 6],
    ],
  )
  await append(2_000)
  assert.equal(written.at(-1)?.to, 2_006)
})

test('the projector collects events of several partitions, and writes at once when their total is large enough', async () => {
  const { actor, look, later, written, events } = following(1, {}, 3)
  await look()
  const last = events.at(-1)
  assert(last !== undefined)
  const append = async (partition: number, to: number) => {
    while (events.length < to) events.push(last)
    actor.hear('Appended', { offsets: [[partition, to]] }, 0, undefined)
    await actor.drained()
  }
  const ends = () => written.splice(0).map(({ partition, to }) => [partition, to])
  ends()
  await append(0, 5)
  await append(2, 9)
  assert.deepEqual(ends(), [])
  await later()
  assert.deepEqual(
    ends().map(([partition]) => partition),
    [0, 2],
  )
  await append(1, 1_000)
  assert.deepEqual(ends(), [])
  await append(2, 1_100)
  assert.deepEqual(
    ends().map(([partition]) => partition),
    [1, 2],
  )
})

test('while the log is unreadable, the projector retries no more often for many partitions than for one', async () => {
  const fault = new Fault('LOG_READ_FAILED', 'the disk is busy', { retryable: true })
  const { look, later, looks } = following(3, { read: Array<Fault>(300).fill(fault) }, 3)
  await look()
  for (let n = 0; n < 3; n++) await later()
  const before = looks()
  for (let n = 0; n < 3; n++) await later()
  // `looks` counts reads of a partition's last offset. In these three seconds there are at most two attempts per
  // second, each over three partitions.
  assert(looks() - before <= 3 * 3 * 2, `${looks() - before} looks`)
})

test('a request to check for new events makes the projector write all pending events at once', async () => {
  const { look, written } = following(2_500, {})
  await look()
  assert.equal(written.at(-1)?.to, 2_500)
})

test('a projector that is stopping finishes its current write and starts no other, however many events are pending', async () => {
  const { look, later, actor, written, events } = following(5_000, {})
  const all = events.splice(3)
  await look()
  events.push(...all)
  actor.hear('Tick', {}, 0, undefined)
  actor.hear('Leave', {}, 0, undefined)
  await actor.drained()
  const ends = () => written.map(({ to }) => to)
  assert.deepEqual(ends(), [3, 2_003])
  actor.hear('Appended', { offsets: [[0, 5_000]] }, 0, undefined)
  await look()
  await later()
  assert.deepEqual(ends(), [3, 2_003])
})
