/**
 * Tests markets whose sources contradict each other. Such a market records the reports of every source, and the oracle
 * decides its outcome.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO, YES } from '#domain/order.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import { verdictOf } from '#domain/quick-market.ts'
import { type World, world } from './quick-world.ts'

type Usd = Partial<Record<PriceSource, number>>

/** Simulates a market whose sources report `start` until the last minute, and `end` from then on. */
async function played(start: Usd, end: Usd): Promise<World> {
  const it = world()
  await it.speaker('pyth')
  await it.until(838, start)
  await it.until(905, end)
  await it.pass(700)
  return it
}

const stepsOf = ({ calls }: World): string[] =>
  calls.filter((call) => !call.startsWith('history') && call !== 'ask oracle')

test('a quick market is contested if two sources contradict its own source by more than the allowed difference', async () => {
  // During the last minute, the price of Pyth is 0.4 % below the start price. This lowers both its end price and its
  // average.
  const it = await played(
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.6, binance: 100.2, coinbase: 100.2 },
  )
  const { resolution, contested, onChain } = it.market()!
  assert.deepEqual([resolution, contested?.source, contested?.outcome], [null, 'pyth', NO])
  assert.deepEqual(
    contested?.sources?.map(({ source, start, end, counts }) => [
      source,
      start?.price,
      end?.price,
      counts,
    ]),
    [
      ['pyth', 100e8, 99.6e8, true],
      ['binance', 100e8, 100.2e8, true],
      ['coinbase', 100e8, 100.2e8, true],
    ],
  )
  assert.equal(onChain, 'contested')
  assert.equal(verdictOf(it.market()!), 'contested')
  const told = it.events.filter(({ quickMarket }) => quickMarket.id === 1).map(({ type }) => type)
  assert.deepEqual(told, ['QuickMarketOpened', 'QuickMarketContested'])
})

test('a contested quick market ends with the oracle’s outcome and still shows the end price of its own source', async () => {
  const it = await played(
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.6, binance: 100.2, coinbase: 100.2 },
  )
  it.oracle.set(it.market()!.marketId, YES)
  await it.pass(61)
  const { resolution, onChain } = it.market()!
  assert.deepEqual(
    [resolution?.outcome, resolution?.byOracle, resolution?.end.price, resolution?.source],
    [YES, true, 99.6e8, 'pyth'],
  )
  assert.equal(onChain, 'reported')
  assert.equal(verdictOf(it.market()!), 'oracle')
  assert.ok(!stepsOf(it).includes('report'), 'prices resolve nothing on chain')
  assert.equal(
    it.events.findLast(({ quickMarket }) => quickMarket.id === 1)?.type,
    'QuickMarketResolved',
  )
})

test('a contested quick market stays contested after kills, even if later prices would decide it', async () => {
  for (const step of ['contest', 'open to oracle', 'note', 'ask oracle', 'decide', 'close']) {
    const it = world()
    await it.speaker('pyth')
    await it.until(838, { pyth: 100, binance: 100, coinbase: 100 })
    await it.until(899, { pyth: 99.6, binance: 100.2, coinbase: 100.2 })
    // The step is carried out, but its answer is lost, and the exchange is killed.
    it.unanswered.add(step)
    await it.until(905, { pyth: 99.6, binance: 100.2, coinbase: 100.2 })
    it.oracle.set(it.market()!.marketId, YES)
    it.restart()
    // According to these histories, the price of every source fell. So Pyth, the market's own source, could now decide
    // the outcome. But the market must stay contested.
    for (const source of ['pyth', 'binance', 'coinbase']) it.past.set(`${source} 900`, 99.5)
    await it.until(910, { pyth: 99.5, binance: 99.5, coinbase: 99.5 })
    await it.pass(60)
    it.unanswered.delete(step)
    it.restart()
    await it.pass(120)
    const { resolution, contested, onChain } = it.market()!
    assert.equal(contested?.outcome, NO, step)
    assert.deepEqual([resolution?.outcome, resolution?.byOracle], [YES, true], step)
    assert.equal(onChain, 'reported', step)
    assert.ok(!it.calls.includes('report'), step)
  }
})

test('every step for a contested market is retried until it succeeds', async () => {
  const it = world()
  const steps = ['contest', 'open to oracle', 'ask oracle', 'decide', 'close', 'note']
  await it.speaker('pyth')
  await it.until(838, { pyth: 100, binance: 100, coinbase: 100 })
  for (const step of steps) it.broken.add(step)
  await it.until(905, { pyth: 99.6, binance: 100.2, coinbase: 100.2 })
  it.oracle.set(it.market()!.marketId, YES)
  for (const step of steps) {
    await it.pass(90)
    it.broken.delete(step)
  }
  await it.pass(120)
  assert.equal(it.market()?.resolution?.outcome, YES)
  assert.equal(it.market()?.onChain, 'reported')
})

const RULES: readonly [name: string, start: Usd, end: Usd, verdict: 'contested' | 0 | 1][] = [
  [
    'if two others contradict the market’s own source only within the bound, its own source’s average decides',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.97, binance: 100.06, coinbase: 100.06 },
    NO,
  ],
  [
    'one source’s contradiction decides nothing if another source confirms the market’s own source',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 100.2, binance: 99.5, coinbase: 100.2 },
    YES,
  ],
  [
    'if only two sources report, and contradict each other, the market is contested',
    { pyth: 100, binance: 100 },
    { pyth: 99.6, binance: 100.2 },
    'contested',
  ],
  [
    'if only two sources report, and differ only within the bound, the average of the market’s own source decides',
    { pyth: 100, binance: 100 },
    { pyth: 99.97, binance: 100.02 },
    NO,
  ],
  [
    'an end price equal to the start price means YES, and sources whose price rose confirm it',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 100, binance: 100.2, coinbase: 100.2 },
    YES,
  ],
  [
    'an end price equal to the start price is contested if the prices of two other sources fell',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 100, binance: 99.8, coinbase: 99.8 },
    'contested',
  ],
  [
    'sources whose price did not change contradict nothing',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.6, binance: 100, coinbase: 100 },
    NO,
  ],
  [
    'a source whose price did not change does not confirm a source that another source contradicts',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.6, binance: 100, coinbase: 100.2 },
    'contested',
  ],
  [
    'a source that reported only the end price has no vote',
    { pyth: 100 },
    { pyth: 99.8, binance: 100.2, coinbase: 100.2 },
    NO,
  ],
  [
    'a source that reported only the start price has no vote',
    { pyth: 100, binance: 100, coinbase: 100 },
    { pyth: 99.8, binance: 99.8 },
    NO,
  ],
]

for (const [name, start, end, verdict] of RULES) {
  test(`the verdict on a quick market follows the rule: ${name}`, async () => {
    const it = await played(start, end)
    const { resolution, contested } = it.market()!
    if (verdict === 'contested') assert.ok(contested !== null && resolution === null)
    else assert.deepEqual([resolution?.outcome, contested], [verdict, null])
    const shown = (resolution ?? contested)?.sources?.map(({ source }) => source)
    assert.deepEqual(shown, ['pyth', 'binance', 'coinbase'], 'the evidence shows every source')
  })
}

test('if a source’s end price is briefly wrong, the source’s average of the last minute decides the quick market', async () => {
  const it = world()
  await it.speaker('pyth')
  await it.until(838, { pyth: 100, binance: 100, coinbase: 100 })
  await it.until(899, { pyth: 100.2, binance: 100.2, coinbase: 100.2 })
  await it.until(900, { pyth: 99.6, binance: 100.2, coinbase: 100.2 })
  await it.until(905, { pyth: 100.2, binance: 100.2, coinbase: 100.2 })
  const { resolution, contested } = it.market()!
  assert.deepEqual(
    [resolution?.outcome, resolution?.average?.price, contested],
    [YES, 100.2e8, null],
  )
})

test('after an outage at a market’s end, the exchange reads every source’s price history before a verdict', async () => {
  const it = world()
  await it.speaker('pyth')
  await it.until(10, { pyth: 100, binance: 100, coinbase: 100 })
  await it.pass(1_000)
  it.restart()
  for (const sec of [840, 850, 860, 870, 880, 890, 900]) it.past.set(`pyth ${sec}`, 99.6)
  it.past.set('binance 900', 100.2)
  it.past.set('coinbase 900', 100.2)
  await it.pass(700)
  const { resolution, contested } = it.market()!
  assert.equal(resolution, null)
  assert.deepEqual(
    contested?.sources?.map(({ end }) => end?.price),
    [99.6e8, 100.2e8, 100.2e8],
  )
})

test('if another source contradicts a source without last-minute prices, its quick market is contested after a wait', async () => {
  const it = world()
  await it.speaker('pyth')
  await it.until(830, { pyth: 100, binance: 100 })
  await it.until(899, { binance: 100 })
  await it.pass(1)
  await it.say('pyth', 99.6, { line: 2 })
  await it.say('binance', 100.2)
  await it.pass(590)
  assert.equal(it.market()?.contested, null)
  await it.pass(30)
  assert.equal(it.market()?.contested?.outcome, NO)
})

test('if the only two end prices are too far apart, the quick market is contested after a wait', async () => {
  const it = world()
  await it.speaker('binance')
  await it.until(895, { pyth: 100, binance: 100, coinbase: 100 })
  await it.until(905, { pyth: 100.9, binance: 99.1 })
  await it.pass(590)
  const before = it.market()!
  assert.deepEqual([before.contested, before.resolution], [null, null])
  await it.pass(30)
  const { contested, resolution, onChain } = it.market()!
  assert.deepEqual([resolution, onChain], [null, 'contested'])
  assert.deepEqual([contested?.source, contested?.end.price], ['binance', 99.1e8])
  assert.deepEqual(
    contested?.sources?.map(({ source, end }) => [source, end?.price]),
    [
      ['pyth', 100.9e8],
      ['binance', 99.1e8],
      ['coinbase', undefined],
    ],
  )
})

test('if a third source confirms one of two distant end prices, that price decides the quick market', async () => {
  const it = world()
  await it.speaker('binance')
  await it.until(895, { pyth: 100, binance: 100, coinbase: 100 })
  await it.until(905, { pyth: 100.9, binance: 99.1 })
  it.past.set('coinbase 900', 99.2)
  await it.pass(700)
  const { contested, resolution } = it.market()!
  assert.deepEqual([contested, resolution?.source, resolution?.outcome], [null, 'binance', NO])
})
