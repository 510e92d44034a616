import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import type { Kit } from '#services/kit/kit.ts'
import { pricesMeters } from '#services/prices/metrics.ts'
import type { PricesEvent } from '#services/prices/prices.ts'

test('a silence of all providers is told when it lasts, once, and not after a moved clock', () => {
  const warnings: object[] = []
  const log = { warn: (fields: object) => warnings.push(fields), info: () => {}, debug: () => {} }
  let nowMs = 0
  const meters = pricesMeters({ registry: new Registry(), log } as unknown as Kit, {
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
  meters.priceSaid(speaker(undefined, 'no provider is fresh'))
  after(1_000)
  meters.priceSaid(speaker('pyth', ''))
  after(60_000)
  assert.deepEqual(warnings, [], 'a moment of silence')

  meters.priceSaid(speaker(undefined, 'no provider is fresh'))
  after(3_000)
  meters.priceSaid(speaker(undefined, 'the providers disagree'))
  after(3_000)
  after(3_000)
  assert.deepEqual(warnings, [{ asset: 'BTC', why: 'the providers disagree' }])
})
