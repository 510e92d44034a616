/** Tests markets that end near the strike. If the sources disagree whether the price rose or fell, a rule decides. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO, YES } from '#domain/order.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import { type Random, randomFrom } from '../../../support/random.ts'
import { seedsOf } from '../../../support/sample.ts'
import { START_SEC, world } from './quick-world.ts'

const AVERAGED = [840, 850, 860, 870, 880, 890]
const SEEDS = seedsOf(1, 2, 3, Math.floor(Math.random() * 2 ** 31))

test('if price sources disagree on the direction, the last minute’s average price decides the quick market', async () => {
  const { until, speaker, market } = world()
  await speaker('pyth')
  await until(0, { pyth: 100, binance: 100.5 })
  await until(860, { pyth: 99.5, binance: 100.25 })
  await until(899, { pyth: 100.25, binance: 100.25 })
  // Coinbase, the third source, never reports a price, and its history has none.
  await until(904, { pyth: 100.25, binance: 100.25 })
  const { source, start, end, outcome, sources, average } = market()!.resolution!
  // The average of the last minute uses six prices: 99.5 at 840, 850 and 860 s, and 100.25 at 870, 880 and 890 s.
  assert.deepEqual(
    [source, start.price, end.price, average?.price, outcome],
    ['pyth', 100e8, 100.25e8, 99.875e8, NO],
  )
  assert.deepEqual(
    average?.marks.map(({ boundarySec, price, source }) => [
      boundarySec - START_SEC,
      price,
      source,
    ]),
    AVERAGED.map((sec) => [sec, (sec <= 860 ? 99.5 : 100.25) * 1e8, 'pyth']),
  )
  assert.deepEqual(
    sources?.map(({ source, start, end, counts }) => [source, start?.price, end?.price, counts]),
    [
      ['pyth', 100e8, 100.25e8, true],
      ['binance', 100.5e8, 100.25e8, true],
      ['coinbase', undefined, undefined, false],
    ],
  )
})

test('each source’s direction is measured from its own start price, so a constant price offset does not matter', async () => {
  const { until, speaker, market } = world()
  await speaker('pyth')
  // Binance is half a dollar above Pyth at the start and at the end. So the end price of Binance is above the strike.
  // But each source is compared with its own start price, and both prices fell.
  await until(0, { pyth: 100, binance: 100.5, coinbase: 100 })
  await until(899, { pyth: 101, binance: 101, coinbase: 101 })
  await until(900, { pyth: 99.75, binance: 100.25, coinbase: 100 })
  const { outcome, average, sources } = market()!.resolution!
  // The price of Coinbase did not change, so Coinbase supports neither outcome.
  assert.deepEqual([outcome, average, sources?.length], [NO, undefined, 3])
})

test('a quick market is not decided while the history of one price source cannot be read', async () => {
  const { until, speaker, market, pass, say, past } = world()
  await speaker('pyth')
  await until(0, { pyth: 100, binance: 100, coinbase: 100 })
  await until(899, { pyth: 99.5, binance: 100, coinbase: 100 })
  past.set('coinbase 900', 'away')
  await pass(1)
  await say('pyth', 100.25)
  await say('binance', 99.75)
  // Coinbase has reported no price since the end, and its history cannot be read now. So the market is not decided yet.
  await pass(20)
  assert.equal(market()?.resolution, null)
  past.set('coinbase 900', 99.75)
  await pass(20)
  assert.equal(market()?.resolution?.average?.price, 99.5e8)
  assert.equal(market()?.resolution?.outcome, NO)
})

test('a quick market waits 90 s for a price source that does not answer, and then ignores the source', async () => {
  const { until, speaker, market, pass, say, past } = world()
  await speaker('pyth')
  await until(0, { pyth: 100, binance: 100, coinbase: 100 })
  await until(899, { pyth: 99.5, binance: 100, coinbase: 100 })
  past.set('coinbase 900', 'away')
  await pass(1)
  await say('pyth', 100.25)
  await say('binance', 100.25)
  await pass(88)
  assert.equal(market()?.resolution, null)
  await pass(5)
  const { outcome, average } = market()!.resolution!
  assert.deepEqual([outcome, average], [YES, undefined])
})

test('if a market’s source has no prices in the last minute, a fallback source decides the quick market', async () => {
  const { until, speaker, market, pass, say } = world()
  await speaker('pyth')
  await until(0, { pyth: 100, binance: 100 })
  await until(830, { pyth: 100.5, binance: 100 })
  await until(899, { binance: 99.97 })
  await pass(1)
  await say('pyth', 100.04, { line: 2 })
  await say('binance', 99.96)
  await pass(590)
  assert.equal(market()?.resolution, null)
  await pass(30)
  const { source, outcome, average } = market()!.resolution!
  assert.deepEqual([source, outcome, average?.price], ['binance', NO, 99.97e8])
})

/**
 * Returns the price that each source reports in each second. Prices are multiples of 1/128 dollar around the strike, so
 * that integers represent them exactly.
 */
function drawPaths(random: Random): Map<PriceSource, Map<number, number>> {
  const paths = new Map<PriceSource, Map<number, number>>()
  for (const source of PRICE_SOURCES) {
    const path = new Map<number, number>()
    const basis = random.int(-8, 8)
    let at = 0
    for (let sec = -10; sec <= 1_000; sec++) {
      at = Math.max(-12, Math.min(12, at + random.int(-3, 3)))
      path.set(sec, 100 + (basis + at) / 128)
    }
    paths.set(source, path)
  }
  return paths
}

/** Computes the verdict by the rule in docs/prices.md. */
function writtenRule(paths: Map<PriceSource, Map<number, number>>) {
  const at = (source: PriceSource, sec: number) => paths.get(source)!.get(sec)!
  const move = (source: PriceSource) => at(source, 900) / at(source, 0) - 1
  const strike = at('pyth', 0)
  const isUp = at('pyth', 900) >= strike
  const others = (['binance', 'coinbase'] as const).map(move)
  const agreeing = others.filter((other) => (isUp ? other > 0 : other < 0))
  const opposed = others.filter((other) => (isUp ? other < 0 : other > 0))
  const far = opposed.filter((other) => Math.abs(other - move('pyth')) * 10_000 > 10)
  const isByMean = opposed.length >= 1 + agreeing.length
  const mean = AVERAGED.reduce((sum, sec) => sum + at('pyth', sec), 0) / AVERAGED.length
  const end = isByMean ? Math.floor(mean * 1e8) : at('pyth', 900) * 1e8
  const isContested = isByMean && far.length > agreeing.length && end >= strike * 1e8 === isUp
  return { isContested, isByMean, end, outcome: end >= strike * 1e8 ? YES : NO }
}

/** Simulates a market to its end. With `trouble`, sources fall silent and the exchange loses its memory at times. */
async function play(
  paths: Map<PriceSource, Map<number, number>>,
  trouble: Random | undefined,
): Promise<ReturnType<typeof writtenRule>> {
  const { past, say, speaker, pass, restart, market } = world()
  for (const [source, path] of paths) {
    for (const [sec, usd] of path) past.set(`${source} ${sec}`, usd)
  }
  await speaker('pyth')
  const silentUntil = new Map<PriceSource, number>()
  const lines = new Map<PriceSource, number>()
  for (let sec = -9; sec <= 1_000; sec++) {
    await pass(1)
    // Only reports near the start and the end matter, so faults happen only then.
    const isNear = (sec > 820 && sec < 930) || sec < 30
    if (isNear && trouble?.chance(0.04)) {
      restart()
      await speaker('pyth')
      for (const source of PRICE_SOURCES) lines.set(source, (lines.get(source) ?? 1) + 1)
    }
    for (const source of PRICE_SOURCES) {
      if (isNear && trouble?.chance(0.03)) {
        silentUntil.set(source, sec + trouble.int(1, 25))
        lines.set(source, (lines.get(source) ?? 1) + 1)
      }
      if ((silentUntil.get(source) ?? -99) > sec) continue
      await say(source, paths.get(source)!.get(sec)!, { line: lines.get(source) ?? 1 })
    }
    if (sec > 900 && (market()?.resolution ?? market()?.contested)) break
  }
  const isContested = market()?.contested !== null
  const verdict = market()?.resolution ?? market()?.contested
  assert.ok(verdict, 'there is a verdict')
  const { end, average, outcome } = verdict
  return { isContested, isByMean: average !== undefined, end: average?.price ?? end.price, outcome }
}

for (const seed of SEEDS) {
  test(`random quick markets near the start price agree with a reference implementation, despite restarts, TEST_SEED=${seed}`, async (t) => {
    const random = randomFrom(seed)
    let [byMean, contested] = [0, 0]
    for (let round = 0; round < 6; round++) {
      const paths = drawPaths(random)
      const expected = writtenRule(paths)
      byMean += Number(expected.isByMean)
      contested += Number(expected.isContested)
      assert.deepEqual(await play(paths, undefined), expected, `round ${round}, undisturbed`)
      assert.deepEqual(await play(paths, random), expected, `round ${round}, disturbed`)
    }
    t.diagnostic(`of 6, ${byMean} were judged by the mean, ${contested} contested`)
  })
}
