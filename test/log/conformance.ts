/** Tests the properties that every event log has. The same tests run for each kind of storage. */

import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { type OrderHash, tradeId } from '#domain/ids.ts'
import type { EventLog, LogRecord } from '#log/event-log.ts'
import type { SqliteLogOptions } from '#log/partition/sqlite-log.ts'
import { randomFrom } from '../support/random.ts'
import { closedOrder, contentOf, flowOf, marketNamed, type Noted, notes } from './flow.ts'

export type OpenOptions = Pick<SqliteLogOptions, 'closedOrdersMax'>

/** Storage for the logs of one test. Only one of these logs can be open at a time. */
export type LogPlace = {
  open(options?: OpenOptions): Promise<EventLog<Noted>>
  dispose(): Promise<void>
}

const NOW = 1_790_000_000_000

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}

export function fault(code: string) {
  return (error: unknown) => {
    assert(error instanceof Fault, `${error}`)
    assert.equal(error.code, code)
    return true
  }
}

function offsets(records: readonly LogRecord<Noted>[]): number[] {
  return records.map((record) => record.offset)
}

/** Registers the tests; `newPlace` is called for each test. */
export function conformance(newPlace: () => Promise<LogPlace>): void {
  const random = randomFrom(7)
  const market = marketNamed(random)
  const other = marketNamed(random)
  const note = notes(market)
  let place: LogPlace | undefined
  let opened: EventLog<Noted> | undefined

  afterEach(async () => {
    await opened?.close()
    await place?.dispose()
    opened = undefined
    place = undefined
  })

  async function open(options?: OpenOptions): Promise<EventLog<Noted>> {
    place ??= await newPlace()
    opened = await place.open(options)
    return opened
  }

  async function reopened(log: EventLog<Noted>): Promise<EventLog<Noted>> {
    opened = undefined
    await log.close()
    return open()
  }

  function appendNotes(log: EventLog<Noted>, from: number, to: number) {
    return log.append(0, { events: range(from, to).map(note), nowMs: NOW + to })
  }

  test('after the log is opened again, all appended events are there', async () => {
    const flow = flowOf(23, 40)
    const log = await open()
    for (const batch of flow.batches) await log.append(0, batch)
    const content = contentOf(log, 0, flow)
    assert.equal(contentOf(await reopened(log), 0, flow), content)
  })

  test('appended events are read back in order, from any offset and in pages of any size', async () => {
    let log = await open()
    assert.deepEqual(log.state(0), {
      partition: 0,
      firstOffset: 1,
      lastOffset: 0,
      lastMs: 0,
      meta: {},
    })
    assert.deepEqual(log.read(0, 1, 10), [])
    assert.deepEqual(await appendNotes(log, 1, 3), { firstOffset: 1, lastOffset: 3, rows: [] })
    assert.deepEqual(await appendNotes(log, 4, 4), { firstOffset: 4, lastOffset: 4, rows: [] })
    assert.deepEqual(await appendNotes(log, 5, 30), { firstOffset: 5, lastOffset: 30, rows: [] })
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      for (const portion of [1, 2, 7, 100]) {
        const events: Noted[] = []
        for (let next = 1; next <= 30; ) {
          const records = log.read(0, next, portion)
          assert.deepEqual(offsets(records), range(next, Math.min(30, next + portion - 1)))
          events.push(...records.map((record) => record.event))
          next += records.length
        }
        assert.deepEqual(events, range(1, 30).map(note))
      }
      assert.deepEqual(offsets(log.read(0, 6, 2)), [6, 7])
      assert.deepEqual(log.read(0, 31, 5), [])
      assert.throws(() => log.read(0, 32, 5), fault('LOG_BEYOND_END'))
    }
  })

  test('a batch that is too large for one row gets contiguous offsets and is appended completely', async () => {
    const log = await open()
    const big = { ...note(1), note: 'x'.repeat(1_500_000) }
    const events = [
      big,
      ...range(2, 9_000).map(note),
      { ...big, seq: 9_001 },
      { ...big, seq: 9_002 },
    ]
    assert.deepEqual(await log.append(0, { events, nowMs: NOW }), {
      firstOffset: 1,
      lastOffset: 9_002,
      rows: [],
    })
    const records = [...log.read(0, 1, 5_000), ...log.read(0, 5_001, 5_000)]
    assert.deepEqual(
      records.map((record) => record.event),
      events,
    )
  })

  test('the log keeps its latest time and its metadata across a restart; earlier times never replace the latest', async () => {
    let log = await open()
    await log.append(0, { events: [], nowMs: NOW, meta: { a: '1', b: '2' } })
    await log.append(0, { events: [note(1)], nowMs: NOW - 5, meta: { b: '3' } })
    log = await reopened(log)
    const { lastMs, meta, lastOffset } = log.state(0)
    assert.deepEqual(
      { lastMs, meta, lastOffset },
      { lastMs: NOW, meta: { a: '1', b: '3' }, lastOffset: 1 },
    )
  })

  test('the log finds a closed order by its whole hash, not by a hash with the same beginning', async () => {
    let log = await open()
    const orders = range(1, 300).map(() => closedOrder(random, market))
    // This hash shares its first half with a stored hash, so the index finds a row. Only the whole hash in
    // the row shows the difference.
    const twin = `${orders[5]!.orderHash.slice(0, 34)}${'0'.repeat(32)}` as OrderHash
    await log.append(0, { events: [note(1)], nowMs: NOW, closed: orders.slice(0, 200) })
    await log.append(0, { events: [note(2)], nowMs: NOW, closed: orders.slice(200) })
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      const asked = [...orders.map((order) => order.orderHash), twin, random.hex(32) as OrderHash]
      assert.deepEqual(log.closedOrders(0, asked), [...orders, undefined, undefined])
    }
  })

  test('the log does not return a reopened order as closed, until the order is closed again', async () => {
    let log = await open()
    const orders = range(1, 3).map(() => closedOrder(random, market))
    const hashes = orders.map((order) => order.orderHash)
    const again = { ...orders[1]!, reason: 'cancelled' as const, matches: 9 }
    await log.append(0, { events: [note(1)], nowMs: NOW, closed: orders })
    await log.append(0, { events: [note(2)], nowMs: NOW, reopened: hashes.slice(1) })
    assert.deepEqual(log.closedOrders(0, hashes), [orders[0], undefined, undefined])
    await log.append(0, { events: [note(3)], nowMs: NOW, closed: [again] })
    // Closing a closed order again writes it to a new row. The earlier row is removed once it has no orders left.
    await log.append(0, { events: [note(4)], nowMs: NOW, closed: [{ ...again, matches: 10 }] })
    for (const reopen of [false, true]) {
      if (reopen) log = await reopened(log)
      assert.deepEqual(log.closedOrders(0, hashes), [
        orders[0],
        { ...again, matches: 10 },
        undefined,
      ])
    }
  })

  test('the log removes closed orders after their retention time, a limited number per step', async () => {
    let log = await open({ closedOrdersMax: 1_000 })
    const orders = range(1, 100).map((number) => closedOrder(random, market, 1_000 + (number % 10)))
    for (let from = 0; from < 100; from += 5) {
      await log.append(0, {
        events: [note(from + 1)],
        nowMs: NOW,
        closed: orders.slice(from, from + 5),
      })
    }
    assert.equal(log.closedOrderRoom(0), 900)
    const hashes = orders.map((order) => order.orderHash)
    let forgotten = 0
    for (let steps = 1; ; steps++) {
      const step = log.forgetClosed(0, 1_004, 3)
      forgotten += step.forgotten
      if (!step.passed) continue
      assert.equal(steps, 7)
      break
    }
    assert.equal(forgotten, 40)
    assert.equal(log.closedOrderRoom(0), 940)
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      const kept = orders.map((order) => (order.forgetAfterSec < 1_004 ? undefined : order))
      assert.deepEqual(log.closedOrders(0, hashes), kept)
    }
    while (!log.forgetClosed(0, 5_000, 64).passed);
    assert.deepEqual(
      log.closedOrders(0, hashes).filter((order) => order !== undefined),
      [],
    )
  })

  test('the log returns the last appended status of a trade, also after the log is opened again', async () => {
    let log = await open()
    const first = {
      tradeId: tradeId(market, 3, 0),
      status: 'submitted',
      txHash: '0x1',
      atMs: NOW,
    } as const
    const second = { ...first, tradeId: tradeId(market, 3, 1) } as const
    await log.append(0, { events: [note(1)], nowMs: NOW, trades: [first, second] })
    const confirmed = { ...first, status: 'confirmed', atMs: NOW + 1 } as const
    await log.append(0, { events: [note(2)], nowMs: NOW, trades: [confirmed] })
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      const asked = [second.tradeId, first.tradeId, tradeId(other, 3, 0)]
      assert.deepEqual(log.tradeStatuses(0, asked), [second, confirmed, undefined])
    }
  })

  test('the log never deletes events that a market or the projection still needs, nor the last batch', async () => {
    let log = await open()
    for (let from = 1; from <= 40; from += 4) await appendNotes(log, from, from + 3)
    const otherNote = notes(other)
    await log.append(0, { events: [otherNote(1)], nowMs: NOW })
    await appendNotes(log, 41, 44)
    const truncated = (below: number, projected: number, limit = 1_000) =>
      log.truncate(0, below, projected, limit)
    assert.deepEqual(log.truncationFloor(0), { offset: 1, marketId: market })
    assert.equal(truncated(40, 45).removed, 0, 'the market has no snapshot')
    await log.beginSnapshot(0, market, 45, 44).commit()
    assert.deepEqual(log.truncationFloor(0), { offset: 41, marketId: other })
    assert.deepEqual(truncated(40, 10), { firstOffset: 9, removed: 8, more: false })
    assert.deepEqual(truncated(30, 45, 5), { firstOffset: 13, removed: 4, more: true })
    assert.deepEqual(truncated(30, 45), { firstOffset: 29, removed: 16, more: false })
    assert.deepEqual(truncated(100, 100), { firstOffset: 41, removed: 12, more: false })
    log = await reopened(log)
    assert.throws(() => log.read(0, 40, 1), fault('LOG_TRUNCATED'))
    assert.deepEqual(log.read(0, 41, 1), [{ offset: 41, event: otherNote(1) }])
    log.retireMarket(0, other)
    assert.deepEqual(log.truncationFloor(0), { offset: 46 })
    assert.deepEqual(truncated(100, 100), { firstOffset: 42, removed: 1, more: false })
    log = await reopened(log)
    assert.deepEqual(offsets(log.read(0, 42, 10)), [42, 43, 44, 45])
    assert.deepEqual(await appendNotes(log, 45, 45), { firstOffset: 46, lastOffset: 46, rows: [] })
  })

  test('if one event of an append cannot be stored as JSON, the whole append fails and stores nothing', async () => {
    const log = await open()
    await appendNotes(log, 1, 2)
    const bug = { ...note(3), note: 1n as unknown as string }
    await assert.rejects(log.append(0, { events: [bug], nowMs: NOW }), TypeError)
    assert.equal(log.reopen(0).lastOffset, 2)
  })

  test('the row bytes that an append returns stay unchanged during later appends', async () => {
    const log = await open()
    const append = (seq: number) =>
      log.append(0, { events: [note(seq)], nowMs: NOW, wantsRows: true })
    const texts = ({ rows }: { rows: readonly Uint8Array[] }) =>
      rows.map((row) => JSON.parse(Buffer.from(row).toString()))
    const [first, second] = [await append(1), await append(2)]
    assert.deepEqual(texts(first), [[note(1)]])
    assert.deepEqual(texts(second), [[note(2)]])
  })

  test('the log finds many closed orders at once, in any sequence and with repetitions', async () => {
    let log = await open()
    const random = randomFrom(41)
    const orders = Array.from({ length: 900 }, () => closedOrder(random, market))
    await log.append(0, { events: [note(1)], nowMs: NOW, closed: orders.slice(0, 700) })
    await log.append(0, { events: [note(2)], nowMs: NOW, closed: orders.slice(700) })
    const asked = Array.from({ length: 2_000 }, () =>
      random.chance(0.1) ? undefined : random.pick(orders),
    )
    const hashes = asked.map((order) => order?.orderHash ?? (random.hex(32) as OrderHash))
    // Hashes that share only their first bytes with a closed order.
    const alike = orders
      .slice(0, 50)
      .map(({ orderHash }) => orderHash.slice(0, 10) + 'f'.repeat(56))
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      assert.deepEqual(log.closedOrders(0, hashes), asked)
      assert(log.closedOrders(0, alike as OrderHash[]).every((order) => order === undefined))
    }
    const reopenedHashes = orders.filter((_, n) => n % 3 === 0).map((order) => order.orderHash)
    await log.append(0, { events: [note(3)], nowMs: NOW, reopened: reopenedHashes })
    for (const again of [false, true]) {
      if (again) log = await reopened(log)
      assert.deepEqual(
        log.closedOrders(
          0,
          orders.map((order) => order.orderHash),
        ),
        orders.map((order, n) => (n % 3 === 0 ? undefined : order)),
      )
    }
  })
}
