import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Observation } from '#domain/asset-price.ts'
import { PRICES_WAITING_MAX } from '#domain/limits.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import type { Context, Message } from '#runtime/actor.ts'
import { makeFailover } from '#services/prices/feeds/failover.ts'
import {
  assetPricesOf,
  newPrices,
  type PricesEvent,
  type PricesProtocol,
  prices,
  whyUnpriced,
} from '#services/prices/prices.ts'
import type { PriceBatch, PriceRecord } from '#store/writes/prices.ts'

const START_MS = 1_800_000_000_000

function actor(recorded: readonly PriceRecord[] = []) {
  const failover = makeFailover({
    order: PRICE_SOURCES,
    ageMsMax: 10_000,
    aheadMsMax: 2_000,
    recoverMs: 15_000,
    deviationMax: 0.01,
    jumpMax: 0.05,
    driftMs: 600_000,
  })
  const batches: PriceBatch[] = []
  const write = async (batch: PriceBatch) => void batches.push(batch)
  const options = { assets: ['BTC', 'ETH'], publishMs: 250, writeMs: 2_000 }
  const state = newPrices(options, { failover, write }, recorded)
  const events: PricesEvent[] = []
  const ends: Message<PricesProtocol>[] = []
  let nowMs = START_MS
  const context = {
    get nowMs() {
      return nowMs
    },
    emit: (event: PricesEvent) => events.push(event),
    pipe: (_work: unknown, ok: (value: unknown) => Message<PricesProtocol>) =>
      ends.push(ok(undefined)),
  } as unknown as Context<PricesProtocol, PricesEvent>
  return {
    state,
    batches,
    published: () =>
      events.flatMap((event) => (event.type === 'PricePublished' ? event.price : [])),
    events,
    pass: (ms: number) => {
      nowMs += ms
      prices.Tick(state, {}, context)
    },
    /** Completes the write in progress: delivers its result to the actor. */
    written() {
      for (const end of ends.splice(0)) {
        if (end.type === 'PricesWritten') prices.PricesWritten(state, end.message, context)
      }
    },
    failed: () => {
      ends.length = 0
      prices.PricesNotWritten(state, { why: 'away' }, context)
    },
    say(source: PriceSource, usd: number, fields: Partial<Observation> = {}) {
      const fixed = { asset: 'BTC', source, via: 'stream', line: 1, raw: '' } as const
      const price = Math.round(usd * 1e8)
      const observation = { ...fixed, price, atMs: nowMs, receivedAtMs: nowMs, ...fields }
      prices.Observed(state, { observation }, context)
    },
  }
}

test('the price service publishes new prices of the active source at a limited rate', () => {
  const { say, pass, published } = actor()
  say('binance', 99.9)
  assert.deepEqual(published(), [])
  say('pyth', 100)
  say('pyth', 100.1, { atMs: START_MS + 1 })
  assert.equal(published().length, 1)
  pass(250)
  assert.deepEqual(
    published().map(({ price, source }) => [price, source]),
    [
      [100e8, 'pyth'],
      [100.1e8, 'pyth'],
    ],
  )
  pass(1_000)
  assert.equal(published().length, 2, 'nothing new, nothing said')
})

test('when the price service changes its source, the times of published prices do not go back', () => {
  const { say, pass, published } = actor()
  for (let second = 0; second < 60; second++) {
    pass(1_000)
    say('binance', 100, { atMs: START_MS + second * 1_000 + 700 })
    // Pyth reports on whole seconds, and is unavailable for a while.
    if (second < 10 || second > 30) say('pyth', 100.01 + second / 1_000)
  }
  const prices = published()
  assert.deepEqual(
    [...new Set(prices.map(({ source }) => source))],
    ['pyth', 'binance'],
    'it fell back',
  )
  assert.equal(prices.at(-1)?.source, 'pyth')
  for (const [at, { atMs, number }] of prices.entries()) {
    if (at === 0) continue
    assert.ok(atMs >= prices[at - 1]!.atMs)
    assert.ok(number > prices[at - 1]!.number)
  }
})

test('if the price service publishes no price for an asset, it reports the reason', () => {
  const { say, pass, events, state } = actor()
  say('pyth', 100)
  pass(11_000)
  const [last] = events.filter(({ type }) => type === 'SpeakerChanged').slice(-2)
  assert.deepEqual(last, {
    type: 'SpeakerChanged',
    asset: 'BTC',
    source: undefined,
    why: 'no provider has a recent price',
  })
  assert.equal(
    whyUnpriced(state),
    'BTC: no provider has a recent price; ETH: no provider has a recent price',
  )
})

test('the price service does not publish a price that is too far from the prices of the other sources', () => {
  const { say, pass, events } = actor()
  for (let second = 0; second < 20; second++) {
    for (const source of PRICE_SOURCES) say(source, 100)
    pass(1_000)
  }
  say('pyth', 103)
  const { length } = events
  const refused = events
    .slice(length - 1)
    .map((event) => event.type === 'ObservationRefused' && [event.observation.source, event.why])
  assert.deepEqual(refused, [['pyth', 'suspect']])
})

test('the price service keeps one price per second for twenty minutes, and stores prices in batches', () => {
  const { say, pass, state, batches, written } = actor()
  for (let step = 0; step < 4 * 1_300; step++) {
    say('pyth', 100 + (step % 7) / 100)
    pass(250)
    written()
  }
  const [btc] = assetPricesOf(state)
  assert.ok(btc!.history.length >= 1_199 && btc!.history.length <= 1_201)
  const seconds = btc!.history.map(({ atMs }) => Math.floor(atMs / 1_000))
  assert.equal(new Set(seconds).size, seconds.length)
  const rows = batches.flatMap((batch) => batch.prices)
  assert.ok(batches.length < 700)
  assert.ok(rows.length >= 1_290 && rows.length < 2_000, String(rows.length))
})

test('the last price of each second is stored, even if it arrives while an earlier price is being stored', () => {
  const { say, pass, batches, written } = actor()
  say('pyth', 100)
  pass(250)
  assert.equal(batches.length, 1)
  say('pyth', 101)
  written()
  pass(2_000)
  written()
  const rows = batches.flatMap((batch) => batch.prices)
  assert.deepEqual(
    rows.map(({ price }) => price),
    [100e8, 101e8],
  )
})

test('while the database is unavailable, the price service keeps a limited number of the newest prices to store', () => {
  const { say, pass, state, failed, published } = actor()
  for (let second = 0; second < PRICES_WAITING_MAX + 2_000; second++) {
    say('pyth', 100 + (second % 7) / 100)
    pass(1_000)
    failed()
  }
  assert.ok(state.waiting.length <= PRICES_WAITING_MAX + 2)
  assert.equal(published().at(-1)?.number, state.waiting.at(-1)?.number)
  assert.equal(state.trouble, 'away')
})

test('after a restart, the price service continues the recorded history and checks new prices against its last price', () => {
  const recorded = [1, 2, 3].map((second) => ({
    ...{ asset: 'BTC', price: 100e8, source: 'pyth' as const },
    atMs: START_MS - 10_000 + second * 1_000,
    number: START_MS + 5_000 + second,
  }))
  const { state, say, published } = actor(recorded)
  const [btc] = assetPricesOf(state)
  assert.deepEqual(btc?.history, recorded)
  assert.deepEqual(btc.latest, recorded.at(-1))
  say('pyth', 137)
  assert.deepEqual(published(), [], 'far from what was believed before')
  say('pyth', 101)
  assert.equal(published()[0]?.number, START_MS + 5_004)
})
