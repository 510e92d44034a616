import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type PackedEvent, readRows, unpack } from '#actors/packed-event.ts'
import type { Address, Uint64 } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { buy, sell } from '../support/orders.ts'
import { randomFrom } from '../support/random.ts'
import { given, packed, signed } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'

const stored = (event: MarketEvent) => unpack(packed(event))

test('every event comes back from its short form as it was', () => {
  const market = given({ selfTrade: 'cancel-resting' })
  const flow = randomFlow(market, randomFrom(31))
  for (let step = 0; step < 2_000; step++) flow.step()
  market.ask('CloseMarket', { marketId: market.marketId, reason: 'withdrawn' })
  const types = new Set(market.events.map(({ type }) => type))
  assert.equal(types.size, 9, 'the flow says everything that a market can say')
  for (const event of market.events) assert.deepEqual(stored(event), event)
})

test('rows are written and read as they lie in the logs that there are', () => {
  const path = new URL('./fixtures/packed-v1.json', import.meta.url)
  const { events, rows } = JSON.parse(readFileSync(path, 'utf8')) as {
    events: MarketEvent[]
    rows: PackedEvent[]
  }
  assert.deepEqual(events.map(packed), rows)
  assert.deepEqual(rows.map(unpack), events)
  // Older logs have them at full length.
  assert.deepEqual(events.map(unpack), events)
})

test('a permit, a fee recipient and numbers of 64 bits come back too', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(1).named('maker'))
  const order = {
    ...signed(buy('YES').at(0.4).size(2).named('taker')),
    nonce: '18446744073709551615' as Uint64,
    expiration: '18446744073709551615' as Uint64,
    permit: {
      nonce: '0' as Uint64,
      value: (2n ** 256n - 1n).toString(),
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
  for (const event of [...market.events, strange]) assert.deepEqual(stored(event), event)
})

test('rows of the log are read as readers get them', () => {
  const market = given()
  market.place(buy('YES').named('a'))
  const bytes = new Uint8Array(Buffer.from(JSON.stringify(market.events.map(packed))))
  assert.deepEqual(readRows([bytes, bytes]), [...market.events, ...market.events])
})

test('a row that is too short or too long is a bug of whoever wrote it', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(1).named('a'))
  market.place(buy('YES').at(0.4).size(1).named('b'))
  for (const event of market.events) {
    const short = packed(event)
    if (!('row' in short)) continue
    assert.throws(() => unpack({ ...short, row: short.row.slice(0, -1) }))
    assert.throws(() => unpack({ ...short, row: [...short.row, 0] }))
  }
})
