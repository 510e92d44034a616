import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import { pricesMeters } from '#services/prices/metrics.ts'
import type { PricesEvent, PricesState } from '#services/prices/prices.ts'

const PRICES = new Map([
  ['BTC', { asset: 'BTC', latest: undefined as { atMs: number } | undefined }],
])

test('the price-age metric grows from the service’s start, so an alarm fires even if no price ever arrives', async () => {
  const warnings: object[] = []
  const log = { warn: (fields: object) => warnings.push(fields), info: () => {}, debug: () => {} }
  const registry = new Registry()
  let nowMs = 0
  let isReady = false
  const clock = { nowMs: () => 1_000_000 + nowMs }
  const meters = pricesMeters({ registry, log, clock } as unknown as ThreadContext, {
    feeds: () => [],
    prices: () => (isReady ? ({ assets: PRICES } as unknown as PricesState) : undefined),
    quickMarkets: () => undefined,
    monotonicMs: () => nowMs,
  })
  const age = async () => {
    const metric = await registry.getSingleMetric('sibyl_price_age_seconds')?.get()
    return metric?.values.map(({ labels, value }) => [labels.asset, value])
  }
  nowMs += 500_000
  assert.deepEqual(await age(), [], 'a node that stands by waits for no price')
  isReady = true
  meters.priceSaid({
    ...{
      type: 'SpeakerChanged',
      asset: 'BTC',
      source: undefined,
      why: 'no provider has a recent price',
    },
  })
  assert.deepEqual(await age(), [['BTC', 0]])
  nowMs += 29_000
  meters.lookAtSilences()
  assert.deepEqual(warnings, [])
  nowMs += 32_000
  meters.lookAtSilences()
  assert.deepEqual(await age(), [['BTC', 61]])
  assert.deepEqual(warnings, [{ asset: 'BTC', why: 'no provider has a recent price' }])
  PRICES.set('BTC', { asset: 'BTC', latest: { atMs: clock.nowMs() - 2_000 } })
  assert.deepEqual(await age(), [['BTC', 2]])
})

test('the log reports once that an asset has no published price, and ignores short gaps', () => {
  const warnings: object[] = []
  const log = { warn: (fields: object) => warnings.push(fields), info: () => {}, debug: () => {} }
  let nowMs = 0
  const meters = pricesMeters({ registry: new Registry(), log } as unknown as ThreadContext, {
    feeds: () => [],
    prices: () => undefined,
    quickMarkets: () => undefined,
    monotonicMs: () => nowMs,
  })
  const speaker = (source: 'pyth' | undefined, why: string): PricesEvent => ({
    ...{ type: 'SpeakerChanged', asset: 'BTC', source, why },
  })
  const after = (ms: number): void => {
    nowMs += ms
    meters.lookAtSilences()
  }
  meters.priceSaid(speaker('pyth', ''))
  meters.priceSaid(speaker(undefined, 'no provider has a recent price'))
  after(1_000)
  meters.priceSaid(speaker('pyth', ''))
  after(60_000)
  assert.deepEqual(warnings, [], 'a moment of silence')

  meters.priceSaid(speaker(undefined, 'no provider has a recent price'))
  after(3_000)
  meters.priceSaid(speaker(undefined, 'the providers disagree'))
  after(3_000)
  after(3_000)
  assert.deepEqual(warnings, [{ asset: 'BTC', why: 'the providers disagree' }])
})
