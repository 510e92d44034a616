/** Entries of the public log: what they contain and hide, how long rows are split, and that they never change. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { MarketEvent } from '#domain/market-event.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import { entriesOf, LEAF_BYTES_MAX, permitHash, signatureHash } from '#transparency/log-entries.ts'
import { makeEventReader, readEntry } from '#transparency/public-event.ts'
import { given, signed } from '../services/market/market-fixture.ts'
import { buy, hashNamed, type OrderBuilder } from '../support/orders.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const fixture = JSON.parse(
  readFileSync(new URL('../log/fixtures/packed-v2.json', import.meta.url), 'utf8'),
) as { events: MarketEvent[] }

/** Returns the row that a log would write for these events. */
function rowOf(events: readonly MarketEvent[], first = 1) {
  const text = new JsonBytes()
  text.clear()
  for (const [at, event] of events.entries()) {
    text.raw(at === 0 ? '[\n' : ',\n')
    PACKED.write(event, at === 0 ? undefined : events[at - 1], text)
  }
  text.raw('\n]')
  return { first, count: events.length, payload: Buffer.from(text.bytes) }
}

test('a public log entry contains all events of a log row, with signatures and permits as hashes', () => {
  const [entry, ...others] = entriesOf(rowOf(fixture.events, 17), sha256)
  assert.equal(others.length, 0)
  assert.ok(entry !== undefined)
  const text = Buffer.from(entry).toString()
  assert.doesNotMatch(text, /0x[0-9a-f]{130}/)
  const events = makeEventReader()(entry)
  assert.equal(events.length, fixture.events.length)
  for (const [at, event] of events.entries()) {
    const logged = fixture.events[at]!
    assert.equal(event.offset, 17 + at)
    assert.deepEqual(
      [event.type, event.marketId, event.seq, event.atMs],
      [logged.type, logged.marketId, logged.seq, logged.atMs],
    )
    if (logged.type === 'OrdersMatched' && event.type === 'OrdersMatched') {
      assert.deepEqual(event.fills, logged.fills)
      const { signature, permit, ...order } = logged.taker
      assert.deepEqual(event.taker, {
        ...order,
        signatureHash: signatureHash(signature, sha256),
        ...(permit === undefined ? {} : { permitHash: permitHash(permit, sha256) }),
      })
      if (permit !== undefined) assert.ok(!text.includes(permit.r))
    }
    if (logged.type === 'OrderRested' && event.type === 'OrderRested') {
      assert.equal(event.order?.nonce, logged.order?.nonce)
      assert.equal(event.returned, logged.returned)
      assert.equal(event.remaining, logged.remaining)
    }
    if (logged.type === 'OrderClosed' && event.type === 'OrderClosed') {
      assert.deepEqual([event.reason, event.remaining], [logged.reason, logged.remaining])
    }
  }
})

test('the public log entries of fixed events have the known hash, so their format is unchanged', () => {
  const entries = entriesOf(rowOf(fixture.events), sha256)
  const hash = createHash('sha256')
  for (const entry of entries) hash.update(entry)
  assert.equal(
    hash.digest('hex'),
    '82e55a2a6053a45f848c20ee6e847cf824fc7c4698580c763b9ded09c8fca428',
  )
})

test('a public log entry omits labels, groups, protections and sessions, and contains other optional fields', () => {
  const secret = 'se-cret'
  const market = given({ market: { matching: 'complementary' } })
  const protection = { windowMs: 998, fillsMax: 997 }
  const tags = { label: `${secret} 1`, group: `${secret}2`, protection }
  const place = (order: OrderBuilder, more: object) =>
    market.ask('PlaceOrder', { order: signed(order, market.marketId), ...more })
  place(buy('NO').at(0.4).size(1).named('a'), { tags, session: `${secret}-3` })
  place(buy('NO').at(0.4).size(1).named('b'), { session: `${secret}-4`, timeInForce: 'POST_ONLY' })
  place(buy('NO').at(0.4).size(1).named('b'), { session: `${secret}-5` })
  place(buy('NO').at(0.3).size(1).named('c'), { tags, bookByMs: 9_000_000_000_000 })
  place(buy('YES').at(0.6).size(3).by('bob').named('t'), { tags, session: `${secret}-6` })
  place(buy('NO').at(0.4).size(1).named('d'), { replaces: hashNamed('c'), session: secret })
  const logged = market.events.map((event) => JSON.stringify(event)).join('\n')
  assert.ok(logged.split(secret).length > 12, 'the log has them')
  const [entry] = entriesOf(rowOf(market.events), sha256)
  const text = Buffer.from(entry!).toString()
  assert.doesNotMatch(text, /se-cret|99[78]|label|group/)
  assert.doesNotMatch(text, /0x[0-9a-f]{130}/)
  const events = makeEventReader()(entry!)
  const orders = events.flatMap((event) =>
    event.type === 'OrderRested'
      ? (event.order ?? [])
      : event.type === 'OrdersMatched'
        ? event.taker
        : [],
  )
  assert.deepEqual(
    orders.map(({ timeInForce, bookByMs, replaces }) => [timeInForce, bookByMs, replaces]),
    [
      [undefined, undefined, undefined],
      ['POST_ONLY', undefined, undefined],
      [undefined, 9_000_000_000_000, undefined],
      [undefined, undefined, undefined],
      [undefined, undefined, hashNamed('c')],
    ],
  )
  const causes = events.flatMap((event) => (event.type === 'OrderClosed' ? [event.cause] : []))
  assert.ok(causes.includes('replaced'))
  assert.ok(events.some((e) => e.type === 'OrdersMatched' && e.fills[0]?.kind === 'mint'))
})

test('a quotation mark in an order’s label does not reveal later orders’ signatures in the public log', () => {
  const market = given()
  for (const label of ['"', '\\"', '}]', '{"nonce":', '",']) {
    market.place(buy('YES').at(0.4).size(1).named(`l${label}`), undefined, { tags: { label } })
    market.place(buy('YES').at(0.4).size(1).named(`n${label}`))
  }
  const [entry] = entriesOf(rowOf(market.events), sha256)
  assert.doesNotMatch(Buffer.from(entry!).toString(), /0x[0-9a-f]{130}/)
  const events = makeEventReader()(entry!)
  assert.deepEqual(
    events.map((event) => (event.type === 'OrderRested' ? event.order?.signatureHash : '')),
    market.events.map((event) =>
      event.type === 'OrderRested' ? signatureHash(event.order!.signature, sha256) : '',
    ),
  )
})

test('a long log row becomes several separately readable public log entries, and a long event several pieces', () => {
  const [matched] = fixture.events.filter((event) => event.type === 'OrdersMatched')
  assert.ok(matched?.type === 'OrdersMatched')
  const long = { ...matched, fills: Array.from({ length: 1_000 }, () => matched.fills[0]!) }
  const many = Array.from({ length: 400 }, () => fixture.events).flat()
  const row = rowOf([...many, long, ...many])
  const entries = entriesOf(row, sha256)
  assert.ok(entries.length > 5)
  assert.ok(entries.every(({ length }) => length <= LEAF_BYTES_MAX))
  assert.ok(entries.some((entry) => readEntry(entry).head.pieces === 3))
  const read = makeEventReader()
  const events = entries.flatMap(read)
  assert.deepEqual(
    events.map(({ type, marketId, seq }) => [type, marketId, seq]),
    [...many, long, ...many].map(({ type, marketId, seq }) => [type, marketId, seq]),
  )
  const found = events[many.length]
  assert.ok(found?.type === 'OrdersMatched')
  assert.equal(found.fills.length, 1_000)
  for (const entry of entries) {
    const { head, lines } = readEntry(entry)
    if (head.pieces === undefined) assert.doesNotMatch(lines[0]!, /^\["[A-Z]",0,/)
  }
})

test('the reader of the public log detects missing, repeated and incomplete entries', () => {
  const entries = entriesOf(rowOf(Array.from({ length: 600 }, () => fixture.events).flat()), sha256)
  const [first, second] = entries
  assert.ok(first !== undefined && second !== undefined)
  const third = entries[2]
  assert.ok(third !== undefined)
  const skipped = makeEventReader()
  skipped(first)
  assert.throws(() => skipped(third), /the next entry must begin at offset \d+, not at offset \d+/)
  const repeated = makeEventReader()
  repeated(first)
  assert.throws(() => repeated(first), /the next entry must begin at offset \d+, not at offset \d+/)
  assert.throws(() => makeEventReader()(first.subarray(0, -1)), /has \d+ events/)
})
