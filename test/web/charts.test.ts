/**
 * Tests the charts of a market and their descriptions: marked trades, depth, an asset's price against the start price,
 * and the evidence for an outcome.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { QuickMarketEvidence } from '#client/prices.ts'
import type { PriceObservation, QuickMarket } from '#protocol/shapes/prices.ts'
import { assetSteps, assetWords, hasCourse, withPrice } from '#web/market/asset-series.ts'
import { depthAt, depthOf, depthPath, depthWords } from '#web/market/depth-steps.ts'
import { evidenceRows, evidenceWords } from '#web/market/evidence-rows.ts'
import type { TapeTrade } from '#web/market/tape-merge.ts'
import { tradeMarks } from '#web/market/trade-marks.ts'

const SHARE = 1_000_000
const DOLLAR = 100_000_000

const trade = (sec: number, part: Partial<TapeTrade> = {}): TapeTrade => ({
  ...{ tradeId: `t-${sec}`, price: 400_000, size: 3 * SHARE, outcome: 0, ts: sec * 1_000 },
  ...{ buyer: '0xaa', seller: '0xbb', takerSide: 0, status: 'matched', txHash: '', reason: '' },
  ...part,
})

test('a price chart marks own fills per candle and side, and other trades per price', () => {
  const tape = [
    trade(130, { outcome: 1, price: 600_000 }),
    trade(70, { buyer: '0xMe' }),
    trade(65, { buyer: '0xMe', price: 410_000 }),
    trade(62, { status: 'failed', price: 1 }),
    trade(10, { price: 390_000 }),
    trade(5),
    trade(1),
  ]
  const how = { shown: ['YES', 'NO'], intervalSec: 60, owner: '0xme', hasOthers: true } as const
  const other = { kind: 'other', text: '' }
  assert.deepEqual(tradeMarks(tape, how), [
    { series: 0, sec: 0, price: 400_000, ...other },
    { series: 0, sec: 0, price: 390_000, ...other },
    { series: 0, sec: 60, price: 400_000, kind: 'buy', text: '6' },
    { series: 1, sec: 120, price: 600_000, ...other },
  ])
  const candles = tradeMarks(tape, { ...how, shown: ['YES'], hasOthers: false })
  assert.deepEqual(
    candles.map(({ kind }) => kind),
    ['buy'],
  )
  const many = Array.from({ length: 9 }, (_, at) => trade(at * 60, { buyer: '0xme' })).toReversed()
  assert.ok(tradeMarks(many, how).every(({ text }) => text === ''))
})

test('a depth chart sums sizes outward from the mid price and shows the total at a chosen price', () => {
  const depth = depthOf(
    [
      { price: 400_000, size: BigInt(10 * SHARE) },
      { price: 350_000, size: BigInt(30 * SHARE) },
    ],
    [{ price: 420_000, size: BigInt(20 * SHARE) }],
  )
  assert.ok(depth !== undefined)
  assert.equal((depth.low + depth.high) / 2, 410_000)
  assert.equal(depth.largest, BigInt(40 * SHARE))
  const { point, side } = depthAt(depth, 380_000) ?? {}
  assert.deepEqual([side, point?.price, point?.total], ['bid', 400_000, BigInt(10 * SHARE)])
  const all = depthAt(depth, 350_000)?.point
  assert.deepEqual([all?.total, all?.value], [BigInt(40 * SHARE), 14_500_000n])
  assert.equal(depthAt(depth, 410_000), undefined, 'between the best prices there is nothing')
  assert.equal(depthAt(depth, 430_000)?.side, 'ask')
  const box = { width: 100, height: 100 }
  assert.match(depthPath(depth, 'bids', box), /^M[\d.]+ 100H[\d.]+V75H[\d.]+V0H0V100Z$/)
  assert.match(depthPath(depth, 'asks', box), /^M[\d.]+ 100H[\d.]+V50H100V100Z$/)
  assert.equal(
    depthWords('YES', depth),
    'The bids for YES sum up to 40 shares from 40.0¢ down to 35.0¢. ' +
      'The asks for YES sum up to 20 shares from 42.0¢ up to 42.0¢.',
  )
})

test('a depth chart shows one side for a one-sided book, and is absent for an empty book', () => {
  const depth = depthOf([], [{ price: 10_000, size: 5n }])
  assert.ok(depth !== undefined)
  assert.equal(depth.low, 0)
  assert.equal(depthPath(depth, 'bids', { width: 1, height: 1 }), '')
  assert.match(depthWords('NO', depth), /^There are no bids\. /)
  assert.equal(depthOf([], []), undefined)
  assert.equal(depthWords('NO', undefined), 'There are no orders for NO.')
})

const quick = {
  ...{ id: 7, asset: 'BTC', startTime: 100, endTime: 104, startPrice: 50_000 * DOLLAR },
  ...{ endPrice: null, outcome: null, resolved: false, priceSource: 'pyth', verdict: 'open' },
} as unknown as QuickMarket

test('the line of a quick market begins at the start price and leaves the remaining time empty', () => {
  const at = (sec: number, dollars: number) => ({ sec, price: dollars * DOLLAR })
  let points = withPrice([at(100, 49_000)], at(101, 50_010))
  points = withPrice(points, at(101, 50_020))
  assert.equal(withPrice(points, at(99, 1)), points, 'an older price changes nothing')
  const steps = assetSteps(quick, points, 102)
  assert.deepEqual(steps, [
    at(100, 50_000),
    at(101, 50_020),
    at(102, 50_020),
    { sec: 103 },
    { sec: 104 },
  ])
  assert.equal(
    assetWords(quick, steps, 102),
    'BTC is at 50,020.00, 20.00 above the strike of 50,000.00, with prices between 50,000.00 and ' +
      '50,020.00 in this chart. 00:02 are left.',
  )
  const over = { ...quick, endPrice: 49_990 * DOLLAR }
  const whole = assetSteps(over, points, 200)
  assert.deepEqual(whole.at(-1), at(104, 49_990))
  assert.match(assetWords(over, whole, 200), /^BTC was at 49,990\.00, 10\.00 below .* has ended\.$/)
  assert.equal(hasCourse(over, points), true)
  assert.equal(hasCourse(over, []), false)
  assert.deepEqual(
    assetSteps({ ...over, endPrice: 49_996 * DOLLAR }, [], 200).map(
      ({ price = 0 }) => price / DOLLAR,
    ),
    [50_000, 49_999, 49_998, 49_997, 49_996],
  )
  const day = { ...quick, endTime: 100 + 86_400 }
  assert.ok(assetSteps(day, [], 200).length <= 901)
})

const report = (source: string, dollars: number) =>
  ({ source, price: dollars * DOLLAR }) as PriceObservation

test('the evidence view of a quick market lists every price source, the deciding source and the reason', () => {
  const evidence = {
    quickMarket: { ...quick, verdict: 'prices' },
    decidedBy: 'pyth',
    average: null,
    compared: [],
    providers: [
      {
        ...{ source: 'pyth', start: report('pyth', 100), end: report('pyth', 101) },
        ...{ direction: 'up', moveBps: 100, counted: true },
      },
      {
        ...{ source: 'binance', start: null, end: report('binance', 101) },
        ...{ direction: null, moveBps: null, counted: false },
      },
    ],
  } as unknown as QuickMarketEvidence
  assert.deepEqual(
    evidenceRows(evidence).map(({ source, decided, counted }) => [source, decided, counted]),
    [
      ['pyth', true, true],
      ['binance', false, false],
    ],
  )
  assert.equal(evidenceWords(evidence), 'Decided by pyth.')
  const averaged = { ...evidence, average: { price: 1, observations: [] } }
  assert.match(evidenceWords(averaged), /^Decided by pyth, by the mean of its last prices/)
  const other = { ...evidence, decidedBy: 'coinbase' }
  assert.match(evidenceWords(other), /because pyth had no price at the end\.$/)
  assert.match(evidenceWords({ ...evidence, decidedBy: 'oracle' }), /the oracle decided\.$/)
  assert.equal(evidenceWords({ ...evidence, decidedBy: null }), 'The outcome is not decided yet.')
  const contested = { ...evidence.quickMarket, verdict: 'contested' } as const
  assert.match(evidenceWords({ ...evidence, quickMarket: contested }), /the oracle decides\.$/)
})

test('the evidence of a quick market shows the price reports even if the exchange lists no providers', () => {
  const evidence = {
    ...{ quickMarket: quick, decidedBy: 'pyth', average: null },
    ...{ start: report('pyth', 100), end: report('pyth', 101) },
    compared: [{ start: null, end: report('binance', 99) }],
  } as unknown as QuickMarketEvidence
  assert.deepEqual(
    evidenceRows(evidence).map(({ source, moveBps, decided }) => [source, moveBps, decided]),
    [
      ['pyth', 100, true],
      ['binance', null, false],
    ],
  )
})
