/** The replay of a public log agrees with the exchange's own matching, and detects every change. */

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

/** Replays events in the form of a public log's entries; `forge` may change the lines of an entry. */
function replay(events: readonly MarketEvent[], forge = (line: string): string => line) {
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
      const [head, ...lines] = Buffer.from(entry).toString().split('\n')
      const forged = [head, ...lines.map((line) => (line === '' ? '' : forge(line)))].join('\n')
      for (const event of read(Buffer.from(forged))) run.apply(event)
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
  test(`the replay of the public log accepts all events of a random market, seed ${seed}, ${selfTrade}`, () => {
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
  test(`the replay of the public log accepts all events of a complementary market, seed ${seed}, ${selfTrade}`, () => {
    const events = lifeOf(seed, selfTrade, 'complementary')
    const kinds = new Set(events.flatMap((e) => (isMatch(e) ? e.fills.map((f) => f.kind) : [])))
    assert.deepEqual(kinds, new Set([undefined, 'mint', 'merge']))
    assert.equal(replay(events).events, events.length)
  })
}

test('the replay of the public log finds a mint recorded as a fill, and a skipped older order', () => {
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
  assert.throws(() => replay(plain), /the kind must be mint/)
  assert.throws(() => replay(changed({ makerHash: hashNamed('b') })), /must be filled before/)
})

/**
 * Runs steps on a market, and checks that the replay accepts its events. Returns a function that makes a forged copy of
 * the events: it applies `change` to each event, and numbers the results again.
 */
function lifeWith(steps: (market: ReturnType<typeof given>) => void) {
  const market = given()
  steps(market)
  const events = [...market.events]
  assert.equal(replay(events).events, events.length)
  return (change: (event: MarketEvent) => MarketEvent | MarketEvent[]): MarketEvent[] =>
    events.flatMap(change).map((event, at) => ({ ...event, seq: at + 1 }))
}

const hasTerms = (event: MarketEvent) => 'terms' in event && event.terms !== undefined

test('the random markets that the replay checks contain POST_ONLY, IOC and FOK orders', () => {
  const forces = life.flatMap((event) => ('terms' in event ? [event.terms?.timeInForce] : []))
  assert.deepEqual(new Set(forces), new Set(['POST_ONLY', 'IOC', 'FOK']))
})

test('the replay of the public log finds an IOC order that rests, whole or in part', () => {
  const rests = lifeWith((market) => market.place(buy('YES').at(0.4).size(2).named('a')))
  const asIoc = (event: MarketEvent): MarketEvent =>
    event.type === 'OrderRested' ? { ...event, terms: { timeInForce: 'IOC' } } : event
  assert.throws(() => replay(rests(asIoc)), /time in force IOC must not rest/)

  const partly = lifeWith((market) => {
    market.place(sell('YES').at(0.4).size(1).named('a'))
    market.place(buy('YES').at(0.4).size(2).by('bob').named('t'))
  })
  const takerAsIoc = (event: MarketEvent): MarketEvent =>
    isMatch(event) ? { ...event, terms: { timeInForce: 'IOC' } } : event
  assert.throws(() => replay(partly(takerAsIoc)), /time in force IOC must not rest/)
})

test('the replay of the public log finds a FOK order that is filled in part', () => {
  const partly = lifeWith((market) => {
    market.place(sell('YES').at(0.4).size(1).named('a'))
    market.place(buy('YES').at(0.4).size(2).by('bob').named('t'), 'IOC')
  })
  const asFok = (event: MarketEvent): MarketEvent =>
    isMatch(event) ? { ...event, terms: { timeInForce: 'FOK' } } : event
  assert.throws(() => replay(partly(asFok)), /FOK order ended without a complete fill/)
})

test('the replay of the public log finds a post-only order that matches on arrival', () => {
  const takes = lifeWith((market) => {
    market.place(sell('YES').at(0.4).size(1).named('a'), 'POST_ONLY')
    market.place(buy('YES').at(0.4).size(1).by('bob').named('t'))
  })
  const asPostOnly = (event: MarketEvent): MarketEvent =>
    isMatch(event) ? { ...event, terms: { timeInForce: 'POST_ONLY' } } : event
  assert.throws(() => replay(takes(asPostOnly)), /post-only order must not match/)
})

test('the replay of the public log finds an order placed too late, and an invalid replacement', () => {
  const life = lifeWith((market) => {
    market.place(buy('YES').at(0.4).size(1).named('old'))
    const bookByMs = market.nowSec * 1_000 + 5
    market.place(buy('YES').at(0.41).size(1).named('new'), 'POST_ONLY', {
      ...{ replaces: hashNamed('old'), bookByMs },
    })
    market.place(buy('NO').at(0.2).size(1).by('bob').named('b'))
  })
  const late = (event: MarketEvent) =>
    hasTerms(event) ? { ...event, terms: { bookByMs: event.atMs - 1 } } : event
  assert.throws(() => replay(life(late)), /must be placed at \d+ .* or earlier/)
  const isOld = (event: MarketEvent) =>
    event.type === 'OrderClosed' && event.orderHash === hashNamed('old')
  assert.throws(
    () => replay(life((event) => (isOld(event) ? [] : event))),
    /the replaced order \S+ is still in the book/,
  )
  const stranger = (event: MarketEvent): MarketEvent =>
    event.type === 'OrderRested' && event.orderHash === hashNamed('b')
      ? { ...event, terms: { replaces: hashNamed('old') } }
      : event
  assert.throws(() => replay(life(stranger)), /of another trader/)
})

test('the replay of the public log finds an order group’s protective cancel that no fill caused', () => {
  const tags = { group: 'g', protection: { windowMs: 1_000, fillsMax: 1 } }
  const life = lifeWith((market) => {
    for (const name of ['a', 'b', 'c']) {
      market.place(sell('YES').at(0.4).size(1).named(name), undefined, { tags })
    }
    market.at(1)
    market.place(buy('YES').at(0.4).size(2).by('bob').named('t'))
  })
  const isProtected = (event: MarketEvent) =>
    event.type === 'OrderClosed' && event.cause === 'protection'
  // The protection of the order group closes all three orders. The third order rests in the book. The first two are
  // filled, but would return to the book if their trades failed.
  assert.equal(life((event) => (isProtected(event) ? event : [])).length, 3)
  const later = (event: MarketEvent) =>
    isProtected(event) ? { ...event, atMs: event.atMs + 1 } : event
  assert.throws(() => replay(life(later)), /no fill of this trader can have triggered it/)
  const expired = (event: MarketEvent): MarketEvent =>
    isProtected(event) ? ({ ...event, reason: 'unfunded' } as MarketEvent) : event
  assert.throws(() => replay(life(expired)), /only a cancelled order may have a cause/)
})

test('labels and groups of orders do not change the result of the replay of the public log', () => {
  const label = { label: 'one' }
  const labelled = life.map((event): MarketEvent => {
    if (event.type === 'OrderRested') return { ...event, tags: label }
    if (event.type === 'OrderClosed') {
      const cause = event.reason === 'cancelled' ? ({ cause: 'replaced' } as const) : {}
      return { ...event, tags: label, ...cause }
    }
    if (!isMatch(event)) return event
    const fills = event.fills.map((fill) => ({ ...fill, makerTags: label }))
    return { ...event, fills, takerTags: label }
  })
  assert.deepEqual(replay(labelled), replay(life))
})

/** Changes some events of a market, numbers them again, and expects this error of the replay. */
function finds(change: (events: MarketEvent[]) => MarketEvent[], difference: RegExp): void {
  assert.equal(opened, 0)
  const changed = change(structuredClone(life))
  const numbered = changed.map((event, at) => ({ ...event, seq: at + 1 }))
  assert.throws(() => replay(numbered), difference)
}

test('the replay of the public log finds two orders of one price whose times of arrival were swapped', () => {
  // Finds a match with two makers at one price.
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
  }, /must be filled before|has no order|would match|must rest/)
})

test('the replay of the public log finds a fill that skips a better price', () => {
  finds((events) => {
    const at = events.findIndex(
      (event) => isMatch(event) && new Set(event.fills.map(({ price }) => price)).size > 1,
    )
    const match = events[at] as OrdersMatched
    const fills = match.fills.toReversed()
    events[at] = { ...match, fills }
    return events
  }, /must be filled before/)
})

test('the replay of the public log refuses prices and sizes that are text instead of numbers', () => {
  const market = given()
  market.place(sell('YES').at(0.099_999).size(1).named('better'))
  market.place(sell('YES').at(0.1).size(1).named('worse'))
  market.place(buy('YES').at(0.2).size(1).by('bob').named('t'))
  const events = [...market.events]
  const prices = [8, 19]
  const asText = (cells: unknown[]) =>
    cells.map((cell, at) => (prices.includes(at) ? String(cell) : cell))
  const forge = (line: string): string =>
    line[0] === '[' ? JSON.stringify(asText(JSON.parse(line))) : line
  assert.throws(() => replay(events, forge), /has a form that does not match its kind/)
})

test('the replay of the public log refuses values of a wrong type and events of an unknown type', () => {
  const wrong: unknown[] = [null, -1, 0.5, 2 ** 53, 'x', '0x', [], {}, true]
  const kinds = new Set<string>()
  for (const line of sampleLines()) {
    const cells = JSON.parse(line) as unknown[] | Record<string, unknown>
    if (!Array.isArray(cells)) continue
    kinds.add(String(cells[0]))
    for (let at = 1; at < cells.length; at++) {
      // Skips the cell that the replay does not read. Also skips objects, arrays and null as the last cell, where they
      // are valid.
      if (at === UNREAD_CELLS[String(cells[0])]) continue
      for (const value of wrong) {
        const changed = JSON.stringify(cells.toSpliced(at, 1, value))
        const isSame = at === cells.length - 1 && typeof value === 'object'
        if (changed !== line && !isSame) assert.throws(() => readLine(changed), Error, changed)
      }
    }
  }
  assert.deepEqual(kinds, new Set(['R', 'M', 'C']))
  const head = { marketId: hashNamed('market'), seq: 2, atMs: 1 }
  for (const type of ['OrderRested', 'OrderVanished', '__proto__', null, undefined]) {
    assert.throws(() => readLine(JSON.stringify({ type, ...head, tradeId: 'x' })), Error, `${type}`)
  }
  for (const line of ['null', '1', '[]', '"R"', '{}', '["R"]', `["R","${hashNamed('m')}"]`]) {
    assert.throws(() => readLine(line), Error, line)
  }
})

const UNREAD_CELLS: Readonly<Record<string, number>> = { R: 15, M: 11, C: 15 }
const HEAD = '{"v":1,"first":1,"count":1}'
const readLine = (line: string) => makeEventReader()(Buffer.from(`${HEAD}\n${line}\n`))

/** Returns one line of each kind of event. */
function sampleLines(): Iterable<string> {
  const found = new Map<string, string>()
  replay(life, (line) => {
    const key = `${line[2]} ${line.split(',').length}`
    if (line[0] === '[' && line[5] === '"' && !found.has(key)) found.set(key, line)
    return line
  })
  return found.values()
}

test('the replay of the public log finds a fill beyond the size of an order', () => {
  finds((events) => {
    const at = events.findIndex(isMatch)
    const match = events[at] as OrdersMatched
    const [first, ...rest] = match.fills
    events[at] = { ...match, fills: [{ ...first!, size: (first!.size + 1) as Shares }, ...rest] }
    return events
  }, /its size must be/)
})

test('the replay of the public log finds a fill at another price than the maker’s', () => {
  finds((events) => {
    const at = events.findIndex(isMatch)
    const match = events[at] as OrdersMatched
    const [first, ...rest] = match.fills
    events[at] = { ...match, fills: [{ ...first!, price: (first!.price - 1) as Price }, ...rest] }
    return events
  }, /the price must be \d+, the maker's price/)
})

test('the replay of the public log finds an order that rests although it would match', () => {
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

test('the replay of the public log finds an order placed twice, a missing event, and an early expiration', () => {
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
  }, /the order has not expired yet: it expires at/)
  assert.throws(() => replay(life.toSpliced(100, 1)), /must be one more than the previous number/)
})

test('the replay of the public log finds returned quantity that does not come from a failed trade', () => {
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
