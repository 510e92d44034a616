/** The replay of a public log: it agrees with the exchange's own matching, and finds what was changed. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { Matching } from '#domain/market.ts'
import type { MarketEvent, OrdersMatched } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import { entriesOf } from '#transparency/log-entries.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import { makeReplay } from '#transparency/replay.ts'
import { given } from '../services/market/market-fixture.ts'
import { randomFlow } from '../services/market/random-flow.ts'
import { buy, hashNamed, sell } from '../support/orders.ts'
import { randomFrom } from '../support/random.ts'

const STEPS = 3_000
const ROW = 50
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Replays events as they come out of the entries of a public log. */
function replay(events: readonly MarketEvent[]) {
  const read = makeEventReader()
  const orders: string[] = []
  const run = makeReplay(({ orderHash }) => orders.push(orderHash))
  for (let first = 0; first < events.length; first += ROW) {
    const row = events.slice(first, first + ROW)
    const text = new JsonBytes()
    for (const [at, event] of row.entries()) {
      text.raw(at === 0 ? '[\n' : ',\n')
      PACKED.write(event, row[at - 1], text)
    }
    text.raw('\n]')
    const payload = Buffer.from(text.bytes)
    for (const entry of entriesOf({ first: first + 1, count: row.length, payload }, sha256)) {
      for (const event of read(entry)) run.apply(event)
    }
  }
  return { ...run.counts, placed: orders.length }
}

function lifeOf(
  seed: number,
  selfTrade: 'allow' | 'cancel-resting',
  matching: Matching = 'same-outcome',
): MarketEvent[] {
  const market = given({ selfTrade, market: { matching } })
  const flow = randomFlow(market, randomFrom(seed))
  for (let step = 0; step < STEPS; step++) flow.step()
  return [...market.events]
}

const isMatch = (event: MarketEvent): event is OrdersMatched => event.type === 'OrdersMatched'

const life = lifeOf(7, 'allow')
const opened = life.findIndex(({ type }) => type === 'MarketOpened')

for (const [seed, selfTrade] of [
  [1, 'allow'],
  [2, 'allow'],
  [3, 'cancel-resting'],
  [4, 'cancel-resting'],
] as const) {
  test(`the replay agrees with a random market, seed ${seed}, ${selfTrade}`, () => {
    const events = lifeOf(seed, selfTrade)
    const counts = replay(events)
    assert.equal(counts.events, events.length)
    assert.ok(counts.fills > 100 && counts.placed > 500, JSON.stringify(counts))
    assert.ok(events.some((event) => event.type === 'OrderRested' && event.returned))
  })
}

for (const [seed, selfTrade] of [
  [1, 'allow'],
  [2, 'cancel-resting'],
] as const) {
  test(`the replay agrees with a complementary market, seed ${seed}, ${selfTrade}`, () => {
    const events = lifeOf(seed, selfTrade, 'complementary')
    const kinds = new Set(events.flatMap((e) => (isMatch(e) ? e.fills.map((f) => f.kind) : [])))
    assert.deepEqual(kinds, new Set([undefined, 'mint', 'merge']))
    assert.equal(replay(events).events, events.length)
  })
}

test('the replay finds a mint recorded as an ordinary fill, and an older order that was skipped', () => {
  const market = given({ market: { matching: 'complementary' } })
  market.place(buy('NO').at(0.4).size(1).named('a'))
  market.place(sell('YES').at(0.6).size(1).named('b'))
  market.place(buy('YES').at(0.6).size(1).by('bob').named('t'))
  const events = [...market.events]
  replay(events)
  const changed = (fill: object) =>
    events.map((event) =>
      isMatch(event) ? { ...event, fills: [{ ...event.fills[0]!, ...fill }] } : event,
    )
  const { kind, ...ordinary } = events.find(isMatch)!.fills[0]!
  assert.equal(kind, 'mint')
  const plain = events.map((event) => (isMatch(event) ? { ...event, fills: [ordinary] } : event))
  assert.throws(() => replay(plain), /it must be mint/)
  assert.throws(() => replay(changed({ makerHash: hashNamed('b') })), /comes before/)
})

test('the replay reads orders with labels and groups', () => {
  const label = { label: 'one' }
  const labelled = life.map((event): MarketEvent => {
    if (event.type === 'OrderRested') return { ...event, tags: label }
    if (event.type === 'OrderClosed') return { ...event, tags: label, cause: 'replaced' }
    if (!isMatch(event)) return event
    const fills = event.fills.map((fill) => ({ ...fill, makerTags: label }))
    return { ...event, fills, takerTags: label }
  })
  assert.deepEqual(replay(labelled), replay(life))
})

/** Changes some events of a market's life, numbers them anew, and expects this difference. */
function finds(change: (events: MarketEvent[]) => MarketEvent[], difference: RegExp): void {
  assert.equal(opened, 0)
  const changed = change(structuredClone(life))
  const numbered = changed.map((event, at) => ({ ...event, seq: at + 1 }))
  assert.throws(() => replay(numbered), difference)
}

test('the replay finds two swapped orders at one price', () => {
  // Two orders that rest at one price and are matched one after the other.
  const match = life.find(
    (event) =>
      isMatch(event) && event.fills.length > 1 && event.fills[0]?.price === event.fills[1]?.price,
  )
  assert.ok(match !== undefined && isMatch(match))
  const [one, other] = match.fills
  finds((events) => {
    const restAt = (hash: string | undefined) =>
      events.findLastIndex(
        (event, at) =>
          at < match.seq - 1 && event.type === 'OrderRested' && event.orderHash === hash,
      )
    const [from, to] = [restAt(one?.makerHash), restAt(other?.makerHash)]
    assert.ok(from >= 0 && to >= 0)
    const moved = events[from]!
    events[from] = { ...events[to]!, atMs: moved.atMs }
    events[to] = { ...moved, atMs: Math.max(moved.atMs, events[to]!.atMs) }
    return events
  }, /comes before|has no order|would match|must rest/)
})

test('the replay finds a fill that skips a better price', () => {
  finds((events) => {
    const at = events.findIndex(
      (event) => isMatch(event) && new Set(event.fills.map(({ price }) => price)).size > 1,
    )
    const match = events[at] as OrdersMatched
    const fills = match.fills.toReversed()
    events[at] = { ...match, fills }
    return events
  }, /comes before/)
})

test('the replay finds a fill beyond the size of an order', () => {
  finds((events) => {
    const at = events.findIndex(isMatch)
    const match = events[at] as OrdersMatched
    const [first, ...rest] = match.fills
    events[at] = { ...match, fills: [{ ...first!, size: (first!.size + 1) as Shares }, ...rest] }
    return events
  }, /its size must be/)
})

test('the replay finds a fill at another price than the maker’s', () => {
  finds((events) => {
    const at = events.findIndex(isMatch)
    const match = events[at] as OrdersMatched
    const [first, ...rest] = match.fills
    events[at] = { ...match, fills: [{ ...first!, price: (first!.price - 1) as Price }, ...rest] }
    return events
  }, /the price must be the maker's/)
})

test('the replay finds an order that rests although it would match', () => {
  finds((events) => {
    const at = events.findIndex((event) => isMatch(event) && event.known !== true)
    const { taker, atMs, marketId } = events[at] as OrdersMatched
    const rested: MarketEvent = {
      ...{ type: 'OrderRested', marketId, seq: 0, atMs, orderHash: taker.orderHash },
      ...{ trader: taker.trader, side: taker.side, outcome: taker.outcome, price: taker.price },
      ...{ size: taker.size, added: taker.size, remaining: taker.size, placedAtMs: atMs },
      ...{ expiresAtSec: Number(taker.expiration), matches: 0, order: taker },
    }
    return [...events.slice(0, at), rested]
  }, /although it would match/)
})

test('the replay finds an order placed twice, a removed event and an early expiry', () => {
  finds((events) => {
    const rested = events.find((event) => event.type === 'OrderRested' && event.order)!
    return [...events, { ...rested, atMs: events.at(-1)!.atMs }]
  }, /was placed before/)
  finds((events) => events.filter((event, at) => event.type !== 'OrderClosed' || at > 300), /./)
  finds((events) => {
    const at = events.findIndex(
      (event) =>
        event.type === 'OrderClosed' && event.reason === 'cancelled' && event.remaining > 0,
    )
    events[at] = { ...(events[at] as MarketEvent & { type: 'OrderClosed' }), reason: 'expired' }
    return events
  }, /the order expires at/)
  assert.throws(() => replay(life.toSpliced(100, 1)), /the event before has the number/)
})

test('the replay finds quantity that no failed trade returned', () => {
  finds((events) => {
    const at = events.findIndex((event) => event.type === 'OrderRested' && event.returned)
    const rested = events[at] as MarketEvent & { type: 'OrderRested' }
    const more = 250_000
    events[at] = {
      ...rested,
      added: (rested.added + more) as Shares,
      remaining: (rested.remaining + more) as Shares,
    }
    return events
  }, /failed trades returned|must rest/)
})
