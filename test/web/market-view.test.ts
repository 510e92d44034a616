/** The parts of a market's view: ladder, tape, candles, resolution steps and result. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ResolutionStatus } from '#protocol/shapes/markets.ts'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import type { TradesMessage } from '#protocol/shapes/stream.ts'
import {
  firstInterval,
  flatLine,
  nextCandle,
  withoutHoles,
  withTrades,
} from '#web/market/candle-series.ts'
import { chartWords } from '#web/market/chart-words.ts'
import { ordersSeenFrom, withImplied } from '#web/market/implied-levels.ts'
import { ladderRows } from '#web/market/ladder-rows.ts'
import { quickStanding } from '#web/market/quick-standing.ts'
import { deedOf, resolutionSteps } from '#web/market/resolution-steps.ts'
import { applyTrades, joinTapes, ownLegOf, TAPE_MAX } from '#web/market/tape-merge.ts'

test('the order ladder sums sizes from the best price, marks own orders, and uses one scale for both sides', () => {
  const { bids, asks } = ladderRows(
    [
      { price: 410_000, size: 10n },
      { price: 400_000, size: 30n },
    ],
    [{ price: 420_000, size: 20n }],
    [
      { side: 0, price: 400_000, remainingSize: 4 },
      { side: 0, price: 400_000, remainingSize: 3 },
      { side: 1, price: 410_000, remainingSize: 9 },
    ],
  )
  assert.deepEqual(bids, [
    { price: 410_000, size: 10n, total: 10n, depth: 250, own: 0n, implied: 0n },
    { price: 400_000, size: 30n, total: 40n, depth: 1_000, own: 7n, implied: 0n },
  ])
  assert.deepEqual(asks, [
    { price: 420_000, size: 20n, total: 20n, depth: 500, own: 0n, implied: 0n },
  ])
  assert.deepEqual(ladderRows([], [], []), { bids: [], asks: [] })
})

test('in a complementary market, the order ladder marks sizes that come from the other outcome’s book', () => {
  const all = [
    { price: 600_000, size: 15n },
    { price: 610_000, size: 4n },
    { price: 620_000, size: 1n },
  ]
  const own = [
    { price: 600_000, size: 5n },
    { price: 620_000, size: 2n },
  ]
  const levels = withImplied(all, own)
  assert.deepEqual(
    levels.map(({ implied }) => implied),
    [10n, 4n, 0n],
  )
  const [first] = ladderRows([], levels, []).asks
  assert.deepEqual([first?.size, first?.implied], [15n, 10n])
  const orders = [
    { side: 1, outcome: 0, price: 700_000, remainingSize: 1 },
    { side: 0, outcome: 1, price: 400_000, remainingSize: 2 },
  ] as const
  assert.deepEqual(ordersSeenFrom(0, orders, false), [orders[0]])
  assert.deepEqual(ordersSeenFrom(0, orders, true), [
    orders[0],
    { side: 1, outcome: 0, price: 600_000, remainingSize: 2 },
  ])
})

test('own trades show a mint as a purchase, and a merge as a sale, for both traders', () => {
  const mint = { buyer: '0xa', seller: '0xb', outcome: 1, price: 400_000, kind: 'mint' } as const
  assert.deepEqual(ownLegOf(mint, '0xa'), { side: 'buy', outcome: 1, price: 400_000 })
  assert.deepEqual(ownLegOf(mint, '0xb'), { side: 'buy', outcome: 0, price: 600_000 })
  const merge = { ...mint, kind: 'merge' } as const
  assert.deepEqual(ownLegOf(merge, '0xa'), { side: 'sell', outcome: 0, price: 600_000 })
  assert.deepEqual(ownLegOf(merge, '0xb'), { side: 'sell', outcome: 1, price: 400_000 })
})

const trade = (seq: number, ts = seq) => ({
  ...{ tradeId: `0xm-${seq}-0`, price: 1, size: 1, outcome: 0 as const, seq, ts },
  ...{ buyer: '0xAb', seller: '0xCd', takerSide: 0 as const },
})
const told = (message: object) => ({ sub: '1', ...message }) as TradesMessage
const ids = (tape: readonly { tradeId: string }[]) => tape.map(({ tradeId }) => tradeId)

test('the trade tape starts with a snapshot, adds new trades on top, and shows each trade’s status', () => {
  const past = [trade(1), trade(2)].map((one) => ({ ...one, status: 'matched', txHash: '' }))
  let tape = applyTrades([], told({ type: 'trades.snapshot', trades: past }))
  assert.deepEqual(ids(tape), ['0xm-2-0', '0xm-1-0'])
  tape = applyTrades(tape, told({ type: 'trade', status: 'matched', ...trade(3) }))
  assert.deepEqual(ids(tape), ['0xm-3-0', '0xm-2-0', '0xm-1-0'])
  assert.equal(applyTrades(tape, told({ type: 'trade', ...trade(3) })), tape, 'told twice')
  const status = { type: 'trade.status', tradeId: '0xm-2-0', reason: '' }
  tape = applyTrades(tape, told({ ...status, status: 'submitted', txHash: '0x1' }))
  tape = applyTrades(tape, told({ ...status, status: 'confirmed', txHash: '' }))
  assert.deepEqual([tape[1]?.status, tape[1]?.txHash], ['confirmed', '0x1'])
  tape = applyTrades(tape, told({ ...status, status: 'failed', txHash: '', reason: 'no funds' }))
  assert.equal(tape[1]?.reason, 'no funds')
  assert.equal(applyTrades(tape, told({ ...status, tradeId: 'gone' })), tape)
})

test('two trade lists are merged newest first up to a limit, and the first list’s version of a trade is kept', () => {
  const shown = (seq: number, status: string, takerSide: 0 | 1 | undefined) => ({
    ...trade(seq, 7),
    ...{ status, takerSide, txHash: '', reason: '' },
  })
  const tape = joinTapes(
    [shown(2, 'confirmed', undefined)],
    [shown(1, 'matched', 1), shown(2, 'matched', 1), shown(10, 'matched', 1)],
  )
  assert.deepEqual(ids(tape), ['0xm-10-0', '0xm-2-0', '0xm-1-0'])
  assert.deepEqual([tape[1]?.status, tape[1]?.takerSide], ['confirmed', 1])
  const many = Array.from({ length: TAPE_MAX + 5 }, (_, seq) => shown(seq, 'matched', 0))
  assert.equal(joinTapes(many, []).length, TAPE_MAX)
})

test('own trades are found regardless of the case of the address', () => {
  const leg = (address: string | undefined) => ownLegOf(trade(1), address)
  assert.deepEqual(leg('0xaB'), { side: 'buy', outcome: 0, price: 1 })
  assert.deepEqual(leg('0xcd'), { side: 'sell', outcome: 0, price: 1 })
  assert.equal(leg('0xef'), undefined)
  assert.equal(leg(undefined), undefined)
})

const candle = (timestamp: number, price: number) => ({
  ...{ timestamp, open: price, high: price, low: price, close: price },
})

test('a trade updates the last candle, or opens the next candle at the last closing price', () => {
  const first = nextCandle(undefined, { price: 40, sec: 125 }, 60)
  assert.deepEqual(first, candle(120, 40))
  assert.deepEqual(nextCandle(first, { price: 50, sec: 179 }, 60), {
    ...candle(120, 40),
    ...{ high: 50, close: 50 },
  })
  assert.deepEqual(nextCandle(first, { price: 30, sec: 180 }, 60), {
    ...{ timestamp: 180, open: 40, high: 40, low: 30, close: 30 },
  })
  assert.equal(nextCandle(first, { price: 1, sec: 119 }, 60), undefined)
})

test('trades missing from the candles are added, and trades already included change nothing', () => {
  const trades = [10, 65, 70].map((sec, at) => ({ sec, price: 40 + at }))
  const all = withTrades([], trades, 60)
  assert.deepEqual(all, [candle(0, 40), { ...candle(60, 40), high: 42, close: 42 }])
  assert.deepEqual(withTrades(all, trades, 60), all)
  assert.deepEqual(withTrades(all.slice(0, 1), trades, 60), all)
})

test('intervals without trades get candles at the previous price, up to now', () => {
  const filled = withoutHoles([candle(60, 40), candle(240, 50)], 60, 310)
  const expected = [candle(60, 40), candle(120, 40), candle(180, 40), candle(240, 50)]
  assert.deepEqual(filled, [...expected, candle(300, 50)])
  assert.deepEqual(withoutHoles([], 60, 310), [])
  const long = withoutHoles([candle(0, 40), candle(60_000_000, 50)], 60, 60_000_000)
  assert.ok(long.length <= 1_500)
  assert.deepEqual(long.at(-1), candle(60_000_000, 50))
  assert.equal(firstInterval(60), '1m')
  assert.equal(firstInterval(90 * 86_400), '1d')
})

const market = { expiration: 1_000, quick: false, hasShares: false }
const none: ResolutionStatus = { marketId: 'm', expired: false, resolved: false }
const assertion = {
  ...{ id: 'a', proposer: 'p', proposedOutcome: true, bondAmount: '1', assertionTime: 1_100 },
  ...{ expirationTime: 1_200, settled: false, settlementResolution: false, disputed: false },
}
const steps = (standing: Parameters<typeof resolutionSteps>[0]) =>
  resolutionSteps(standing).map(({ name, state }) => (state === 'now' ? `[${name}]` : name))

test('the resolution view shows each step from open to redeemed, and the action possible at that step', () => {
  const at = (nowSec: number, status: ResolutionStatus | undefined) => ({
    ...market,
    nowSec,
    status,
  })
  const plain = ['open', 'expired', 'proposed', 'settled', 'redeem']
  const now = (name: string) => plain.map((one) => (one === name ? `[${one}]` : one))
  assert.deepEqual(steps(at(999, undefined)), now('open'))
  assert.equal(deedOf(at(999, none)), undefined)
  assert.deepEqual(steps(at(1_000, none)), now('expired'))
  assert.equal(deedOf(at(1_000, none)), 'propose')
  const proposed = { ...none, expired: true, assertion }
  assert.deepEqual(steps(at(1_199, proposed)), now('proposed'))
  assert.equal(deedOf(at(1_199, proposed)), 'dispute')
  assert.equal(deedOf(at(1_200, proposed)), 'settle')
  const disputed = { ...proposed, assertion: { ...assertion, disputed: true } }
  const withDispute = ['open', 'expired', 'proposed', '[disputed]', 'settled', 'redeem']
  assert.deepEqual(steps(at(1_300, disputed)), withDispute)
  assert.equal(deedOf(at(1_300, disputed)), undefined)
  const over = { ...none, expired: true, resolved: true, winningOutcome: 0 as const }
  assert.deepEqual(steps(at(1_300, over)), now('settled'))
  assert.deepEqual(steps({ ...at(1_300, over), hasShares: true }), now('redeem'))
  assert.equal(deedOf({ ...at(1_300, over), hasShares: true }), 'redeem')
})

test('the outcome of a quick market cannot be proposed', () => {
  const quick = { ...market, quick: true, nowSec: 1_000, status: none }
  assert.deepEqual(steps(quick), ['open', '[expired]', 'settled', 'redeem'])
  assert.equal(deedOf(quick), undefined)
})

test('a quick market shows the side that is ahead, its end, and the winner', () => {
  const one = { startPrice: 100, endTime: 1_000, resolved: false } as QuickMarket
  assert.equal(quickStanding(one, 100, 999).isUp, true, 'the strike itself is YES')
  assert.equal(quickStanding(one, 99, 999).words, 'NO is ahead.')
  assert.equal(quickStanding(one, undefined, 999).isUp, undefined)
  assert.equal(quickStanding(one, 99, 1_000).state, 'ended')
  const contested = { ...one, verdict: 'contested' as const }
  assert.match(quickStanding(contested, 99, 1_000).words, /the oracle decides\.$/)
  const decided = { ...one, resolved: true, outcome: 0, verdict: 'oracle' as const }
  assert.equal(quickStanding(decided, 99, 1_001).words, 'The oracle decided: YES has won.')
  const over = { ...one, resolved: true, outcome: 1 }
  assert.deepEqual(quickStanding(over, 200, 1_001), {
    ...{ state: 'resolved', isUp: false, words: 'The price went down: NO has won.' },
  })
})

test('a price chart has a text description even if no trade exists yet', () => {
  const candles = [
    { timestamp: 0, open: 400_000, high: 450_000, low: 390_000, close: 420_000 },
    { timestamp: 60, open: 420_000, high: 430_000, low: 410_000, close: 425_000 },
  ]
  const series = [
    { name: 'YES', candles },
    { name: 'NO', candles: [] },
  ]
  assert.equal(
    chartWords(series),
    'YES is at 42.5¢, with prices between 39.0¢ and 45.0¢ in this chart.',
  )
  assert.equal(chartWords([]), 'There is no price yet.')
  const newest = {
    ...trade(1),
    ...{ price: 430_000, size: 2_500_000 },
    status: '',
    txHash: '',
    reason: '',
  }
  assert.match(
    chartWords(series, newest),
    / 45\.0¢ in this chart\. Last trade: 2\.50 YES at 43\.0¢\.$/,
  )
  const line = flatLine(500_000, 60, 3_605)
  assert.equal(line.length, 60)
  assert.equal(line.at(-1)?.timestamp, 3_600)
  assert.ok(line.every(({ open, close }) => open === 500_000 && close === 500_000))
})
