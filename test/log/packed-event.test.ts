import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Address, MarketId, Uint64, Uint256 } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { PACKED, readRows } from '#log/packed-event.ts'
import {
  BatchEncoder,
  type BatchRow,
  batchCrc,
  decodeBatch,
  UPCASTERS,
} from '#log/partition/record.ts'
import { given, packed, signed } from '../services/market/market-fixture.ts'
import { randomFlow } from '../services/market/random-flow.ts'
import { buy, type OrderBuilder, sell } from '../support/orders.ts'
import { randomFrom, withSeeds } from '../support/random.ts'

const stored = (events: readonly MarketEvent[]) => PACKED.read(packed(events))

function fixture(version: number): { events: MarketEvent[]; rows: unknown[] } {
  const path = new URL(`./fixtures/packed-v${version}.json`, import.meta.url)
  return JSON.parse(readFileSync(path, 'utf8'))
}

test('every event is read back unchanged from its binary form', () => {
  const market = given({ selfTrade: 'cancel-resting' })
  const flow = randomFlow(market, randomFrom(31))
  for (let step = 0; step < 2_000; step++) flow.step()
  market.ask('CloseMarket', { marketId: market.marketId, reason: 'withdrawn' })
  const types = new Set(market.events.map(({ type }) => type))
  assert.equal(types.size, 9, 'the flow says everything that a market can say')
  assert.deepEqual(stored(market.events), market.events)
  for (const event of market.events) assert.deepEqual(stored([event]), [event])
})

test('mints and merges are read back unchanged from the log, with the labels of their maker orders', () => {
  const market = given({ market: { matching: 'complementary' } })
  market.place(buy('NO').at(0.4).size(1).named('a'), undefined, { tags: { label: 'quote' } })
  market.place(sell('YES').at(0.6).size(1).named('b'))
  market.place(buy('YES').at(0.6).size(2).by('bob').named('t'))
  market.place(sell('YES').at(0.5).size(1).named('c'))
  market.place(sell('NO').at(0.5).size(1).by('bob').named('u'))
  const kinds = market.events.flatMap((event) =>
    event.type === 'OrdersMatched' ? event.fills.map(({ kind }) => kind) : [],
  )
  assert.deepEqual(kinds, ['mint', undefined, 'merge'])
  assert.deepEqual(stored(market.events), market.events)
})

test('an order’s time in force and other optional terms are read back unchanged from the log', () => {
  const market = given()
  const all: object[] = []
  for (const timeInForce of [undefined, 'POST_ONLY', 'IOC', 'FOK'] as const) {
    for (const more of [{}, { bookByMs: 9_000_000_000_000 }, { tags: { label: 'x' } }]) {
      const name = `${timeInForce} ${JSON.stringify(more)}`
      if (timeInForce === 'IOC' || timeInForce === 'FOK') {
        market.place(sell('YES').at(0.4).size(1).named(`maker ${name}`))
      }
      const price = timeInForce === 'IOC' || timeInForce === 'FOK' ? 0.4 : 0.1
      market.place(buy('YES').at(price).size(1).by('bob').named(name), timeInForce, more)
      const { tags, ...late } = { tags: undefined, ...more }
      const terms = timeInForce === undefined ? late : { timeInForce, ...late }
      if (Object.keys(terms).length > 0) all.push(terms)
    }
  }
  const found = market.events.flatMap((event) => ('terms' in event ? [event.terms] : []))
  assert.deepEqual(found, all)
  assert.deepEqual(stored(market.events), market.events)
})

test('the session that placed an order is read back unchanged, and an invalid session value is refused', () => {
  const market = given()
  const place = (order: OrderBuilder) =>
    market.ask('PlaceOrder', { order: signed(order, market.marketId), session: 's-1' })
  place(buy('YES').at(0.5).size(2).by('ann').named('rests'))
  place(sell('YES').at(0.5).size(3).by('bob').named('matches'))
  const held = market.events.filter((event) => 'held' in event)
  assert.deepEqual(
    held.map(({ type }) => type),
    ['OrderRested', 'OrdersMatched'],
  )
  assert.deepEqual(stored(market.events), market.events)
  for (const event of held) {
    const [row] = packed([event]) as unknown[][]
    const at = row!.indexOf('s-1')
    for (const flag of [2, 7, null, '', 'no session', 's'.repeat(65)]) {
      assert.throws(
        () => PACKED.read([row!.with(at, flag)]),
        /the flag of an event (has the unknown value|is not a valid session id)/,
      )
    }
  }
})

test('events of several markets in one row are read back, each with its market', () => {
  withSeeds([1, 2, 3], (random) => {
    const markets = Array.from({ length: 3 }, () => {
      const market = given()
      const flow = randomFlow(market, random)
      for (let step = 0; step < 100; step++) flow.step()
      const marketId = random.hex(32) as MarketId
      return market.events.map((event) => inMarket(event, marketId))
    })
    const mixed: MarketEvent[] = []
    while (markets.some((events) => events.length > 0)) {
      mixed.push(...random.pick(markets).splice(0, random.int(1, 4)))
    }
    assert.deepEqual(stored(mixed), mixed)
  })
})

/** Returns the same event for another market. */
function inMarket(event: MarketEvent, marketId: MarketId): MarketEvent {
  if (event.type === 'OrdersMatched') {
    return { ...event, marketId, taker: { ...event.taker, marketId } }
  }
  if (event.type === 'OrderRested' && event.order !== undefined) {
    return { ...event, marketId, order: { ...event.order, marketId } }
  }
  return { ...event, marketId }
}

test('events read from the rows of existing logs are encoded to exactly the same bytes again', () => {
  const { events, rows } = fixture(2)
  assert.deepEqual(packed(events), rows)
  assert.deepEqual(PACKED.read(rows), events)
  const older = fixture(1)
  assert.deepEqual(PACKED.read(older.rows), older.events)
  // The rows of the oldest logs have the events in unpacked form.
  assert.deepEqual(PACKED.read(events), events)
})

test('rows of the first format version are still read from an existing log', () => {
  const home = { logId: 'log', partition: 0 }
  const { events, rows } = fixture(1)
  const payload = Buffer.from(JSON.stringify(rows))
  const row = { first_offset: 5, count: rows.length, version: 1, payload }
  const stored = { ...row, crc: batchCrc(home, row) }
  const records = decodeBatch(home, stored, UPCASTERS, PACKED)
  assert.deepEqual(
    records.map(({ event }) => event),
    events,
  )
})

test('each row of a split batch can be read without the other rows', () => {
  const market = given()
  const flow = randomFlow(market, randomFrom(7))
  while (market.events.length < 9_000) flow.step()
  const home = { logId: 'log', partition: 0 }
  const rows: BatchRow[] = []
  new BatchEncoder().encode({ home, firstOffset: 1 }, market.events, PACKED, (row) => {
    rows.push({ ...row, payload: Buffer.from(row.payload) })
  })
  assert(rows.length >= 3, `${rows.length} rows`)
  for (const row of rows.toReversed()) {
    const from = row.first_offset - 1
    assert.deepEqual(
      decodeBatch(home, row, UPCASTERS, PACKED).map(({ event }) => event),
      market.events.slice(from, from + row.count),
    )
  }
})

test('a log row without a market or with an unknown kind of event cannot be read', () => {
  const [first] = fixture(2).rows as [unknown[]]
  assert.throws(() => PACKED.read([first.with(1, 0)]), /the first event of a row has no market id/)
  assert.throws(() => PACKED.read([first.with(0, 'X')]), /kind X/)
})

test('a permit, a fee recipient and 64-bit numbers are read back unchanged', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(1).named('maker'))
  const order = {
    ...signed(buy('YES').at(0.4).size(2).named('taker')),
    nonce: '18446744073709551615' as Uint64,
    expiration: '18446744073709551615' as Uint64,
    permit: {
      nonce: '0' as Uint64,
      value: (2n ** 256n - 1n).toString() as Uint256,
      deadline: '1900000000' as Uint64,
      v: 27,
      r: `0x${'1'.repeat(64)}`,
      s: `0x${'2'.repeat(64)}`,
    },
  } as const
  market.ask('PlaceOrder', { order })
  const [matched] = market.events.filter((event) => event.type === 'OrdersMatched')
  assert(matched !== undefined)
  const strange = {
    ...matched,
    taker: { ...order, makerFeeRecipient: `0x${'3'.repeat(40)}` as Address },
  }
  const [rested] = market.events.filter((event) => event.type === 'OrderRested' && !event.order)
  assert(rested?.type === 'OrderRested')
  const returned = { ...rested, returned: true, permit: order.permit.nonce } as const
  const events = [...market.events, strange, returned]
  assert.deepEqual(stored(events), events)
})

test('the bytes that an append sends to readers decode to the appended events', () => {
  const market = given()
  market.place(buy('YES').named('a'))
  const bytes = new Uint8Array(Buffer.from(JSON.stringify(packed(market.events))))
  assert.deepEqual(readRows([bytes, bytes]), [...market.events, ...market.events])
})

test('a log row with a missing or an additional cell cannot be read', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(1).named('a'))
  market.place(buy('YES').at(0.4).size(1).named('b'))
  let lists = 0
  for (const event of market.events) {
    const [short] = packed([event])
    if (!Array.isArray(short)) continue
    lists++
    assert.throws(() => PACKED.read([short.slice(0, -1)]))
    assert.throws(() => PACKED.read([[...short, 0]]))
  }
  assert(lists >= 3, 'the market has said the three that are lists')
})
