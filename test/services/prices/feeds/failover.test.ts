import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Observation } from '#domain/asset-price.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import { type Failover, makeFailover } from '#services/prices/feeds/failover.ts'

const START_MS = 1_800_000_000_000

function group(): {
  failover: Failover
  /**
   * Advances the clock by `seconds`, one second at a time. Each second, the sources report these prices in USD; a
   * source without a price sends no report. Returns the active source.
   */
  round(prices: Partial<Record<PriceSource, number>>, seconds?: number): PriceSource | undefined
  say(source: PriceSource, usd: number, fields?: Partial<Observation>): string
  nowMs(): number
  why(): string
} {
  const failover = makeFailover({
    order: PRICE_SOURCES,
    ageMsMax: 10_000,
    aheadMsMax: 2_000,
    recoverMs: 15_000,
    deviationMax: 0.01,
    jumpMax: 0.05,
    driftMs: 600_000,
  })
  let nowMs = START_MS
  const say = (source: PriceSource, usd: number, fields: Partial<Observation> = {}) =>
    failover.observe(
      {
        asset: 'BTC',
        source,
        price: Math.round(usd * 1e8),
        atMs: nowMs,
        receivedAtMs: nowMs,
        via: 'stream',
        line: 1,
        raw: '',
        ...fields,
      },
      nowMs,
    )
  return {
    failover,
    say,
    nowMs: () => nowMs,
    why: () => failover.choose('BTC', nowMs).why,
    round(prices, seconds = 1) {
      let source: PriceSource | undefined
      for (let second = 0; second < seconds; second++) {
        nowMs += 1_000
        for (const [name, usd] of Object.entries(prices)) say(name as PriceSource, usd)
        source = failover.choose('BTC', nowMs).source
      }
      return source
    },
  }
}

test('the price service uses the primary source while its prices are recent, and otherwise the first recent fallback', () => {
  const { round } = group()
  assert.equal(round({ pyth: 100, binance: 100, coinbase: 100 }), 'pyth')
  assert.equal(round({ binance: 100, coinbase: 100 }, 9), 'pyth')
  assert.equal(round({ binance: 100, coinbase: 100 }, 2), 'binance')
  assert.equal(round({ coinbase: 100 }, 11), 'coinbase')
  assert.equal(round({}, 11), undefined)
})

test('after a start, the price service waits some seconds for the primary source before using a fallback', () => {
  const { round } = group()
  assert.equal(round({ binance: 100 }, 14), undefined)
  assert.equal(round({ binance: 100 }, 3), 'binance')
})

test('after a restart, the price service waits for the primary source, even if its last known price is old', () => {
  const { round, failover, nowMs } = group()
  failover.recall('BTC', 100e8, nowMs() - 60_000)
  assert.equal(round({ binance: 100 }, 1), undefined)
  assert.equal(round({ binance: 100, pyth: 100 }, 1), 'pyth')
})

test('a price source that recovers is used again only after it has been healthy for a while', () => {
  const { round } = group()
  round({ pyth: 100, binance: 100 }, 5)
  assert.equal(round({ binance: 100 }, 12), 'binance')
  assert.equal(round({ pyth: 100, binance: 100 }, 15), 'binance')
  assert.equal(round({ pyth: 100, binance: 100 }, 2), 'pyth')
})

test('if the primary price source keeps failing and returning, the fallback source stays in use', () => {
  const { round } = group()
  round({ pyth: 100, binance: 100 }, 20)
  const seen: (PriceSource | undefined)[] = []
  for (let turn = 0; turn < 20; turn++) {
    seen.push(round({ binance: 100 }, 12), round({ pyth: 100, binance: 100 }, 5))
  }
  assert.deepEqual([...new Set(seen)], ['binance'])
})

test('a price source whose price is far from the two others is not used', () => {
  const { round, failover } = group()
  round({ pyth: 100, binance: 100, coinbase: 100 }, 20)
  assert.equal(round({ pyth: 102, binance: 100.1, coinbase: 100.2 }), 'binance')
  assert.ok(failover.isSuspect('BTC', 'pyth'))
  assert.equal(round({ pyth: 102, binance: 100, coinbase: 100 }, 60), 'binance')
  assert.equal(round({ pyth: 100, binance: 100, coinbase: 100 }, 14), 'binance')
  assert.equal(round({ pyth: 100, binance: 100, coinbase: 100 }, 20), 'pyth')
})

test('while no majority of price sources agrees, no price is published', () => {
  const { round, why } = group()
  round({ pyth: 100, binance: 100 }, 20)
  assert.equal(round({ pyth: 100, binance: 103 }), undefined)
  assert.equal(why(), 'the providers disagree')
  assert.equal(round({ pyth: 100, binance: 103 }, 100), undefined)
  // Pyth and Binance contradict each other, and Binance falls silent. Pyth is still not used, because Pyth may be the
  // wrong source.
  assert.equal(round({ pyth: 100 }, 100), undefined)
  // Coinbase decides as the third source. Once it agrees with Pyth, either of them can become active.
  assert.equal(round({ pyth: 100, coinbase: 108 }, 30), undefined)
  assert.equal(round({ pyth: 100, coinbase: 100.2 }, 14), 'coinbase')
  assert.equal(round({ pyth: 100, coinbase: 100.2 }, 20), 'pyth')
})

test('a source with a deviating price does not stop the use of another source', () => {
  const { round } = group()
  round({ pyth: 100, binance: 100, coinbase: 100 }, 20)
  round({ pyth: 100, binance: 100, coinbase: 104 }, 5)
  assert.equal(round({ pyth: 100, coinbase: 104 }, 30), 'pyth')
})

test('a price is accepted only if it is newer than the last price, not stale and not far ahead of the clock', () => {
  const { say, round, nowMs } = group()
  round({ pyth: 100 })
  assert.equal(say('pyth', 100), 'repeated')
  assert.equal(say('pyth', 100.1), 'accepted')
  assert.equal(say('pyth', 100, { atMs: nowMs() - 1 }), 'backwards')
  assert.equal(say('pyth', 100, { atMs: nowMs() - 10_001 }), 'stale')
  assert.equal(say('pyth', 100, { atMs: nowMs() + 2_001 }), 'ahead')
  assert.equal(say('pyth', 100, { atMs: nowMs() + 2_000 }), 'accepted')
})

test('a sudden price jump is accepted only after a second provider reports a similar price', () => {
  const { say, round, failover } = group()
  round({ pyth: 100, binance: 100 }, 3)
  assert.equal(say('pyth', 137), 'jump')
  assert.equal(say('pyth', 100.2), 'accepted')
  for (let turn = 0; turn < 10; turn++) assert.equal(say('pyth', 137 + turn / 10), 'jump')
  assert.equal(failover.newest('BTC', 'pyth')?.price, 100.2e8)
  assert.equal(say('binance', 138), 'accepted')
  assert.equal(say('pyth', 138.1), 'accepted')
})

test('the allowed price jump grows with the age of the last accepted price', () => {
  const { say, round, nowMs } = group()
  assert.equal(round({ pyth: 100 }, 20), 'pyth')
  assert.equal(round({ pyth: 130 }, 1), 'pyth')
  assert.equal(round({ pyth: 130 }, 60), undefined)
  assert.equal(say('pyth', 106, { atMs: nowMs() }), 'jump')
  round({}, 600)
  assert.equal(say('pyth', 106, { atMs: nowMs() }), 'accepted')
})

test('a large price change needs confirmation by a second provider, even if the last price is old', () => {
  const { say, round, failover, nowMs } = group()
  failover.recall('BTC', 100e8, nowMs() - 86_400_000)
  assert.equal(say('coinbase', 119), 'jump')
  assert.equal(round({ coinbase: 119 }, 60), undefined)
  assert.equal(say('binance', 119.1), 'accepted')
  assert.equal(say('coinbase', 119), 'accepted')
})

test('after a restart, new prices are compared with the last price accepted before the restart', () => {
  const { say, failover, nowMs } = group()
  failover.recall('BTC', 100e8, nowMs() - 60_000)
  assert.equal(say('pyth', 137), 'jump')
  assert.equal(say('pyth', 101), 'accepted')
})
