/**
 * Computes the changes that a batch makes to sums and candles, without the database. The input is the batch's new
 * trades that have not failed, in the order in which they matched in their market. It also includes stored trades that
 * failed after an earlier batch had counted them.
 */

import type { MarketId } from '#domain/ids.ts'
import type { Value } from './columns.ts'
import { addTo, noSum, SPANS_SEC, type SpanSec, type Sum, spanStartSec } from './spans.ts'

/** The fields of a trade from which sums are computed. */
export type CountedTrade = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly seq: number
  readonly fillIndex: number
  readonly outcome: number
  readonly price: number
  readonly cost: number
  readonly matchedAtMs: number
}

type MarketDelta = { readonly chainId: number; readonly volume: Sum; trades: number }

export type SpanDelta = {
  readonly chainId: number
  readonly spanSec: SpanSec
  readonly startSec: number
  readonly volume: Sum
  trades: number
}

type Candle = {
  readonly marketId: MarketId
  readonly outcome: number
  readonly spanSec: SpanSec
  readonly startSec: number
  open: number
  high: number
  low: number
  close: number
  readonly volume: Sum
  trades: number
  firstSeq: number
  firstFill: number
  lastSeq: number
  lastFill: number
}

export type Tally = {
  /** Change of each market's sums: new trades minus failed ones. */
  readonly markets: Map<MarketId, MarketDelta>
  readonly spans: Map<string, SpanDelta>
  /** Candles of new trades only. The trades in `failed` are removed from the stored candles afterwards. */
  readonly candles: Map<string, Candle>
  readonly failed: CountedTrade[]
  /** Change of the number of undecided trades on each chain. */
  readonly pending: Map<number, number>
}

export function newTally(): Tally {
  return {
    markets: new Map(),
    spans: new Map(),
    candles: new Map(),
    failed: [],
    pending: new Map(),
  }
}

/** Changes the number of undecided trades by 1 or -1. */
export function countPending(tally: Tally, chainId: number, by: number): void {
  tally.pending.set(chainId, (tally.pending.get(chainId) ?? 0) + by)
}

/** Counts a matched trade. */
export function count(tally: Tally, trade: CountedTrade): void {
  addSums(tally, trade, 1)
  for (const spanSec of SPANS_SEC) addToCandle(tally, trade, spanSec)
}

/** Subtracts a counted trade that has failed. */
export function uncount(tally: Tally, trade: CountedTrade): void {
  addSums(tally, trade, -1)
  tally.failed.push(trade)
}

function addSums(tally: Tally, trade: CountedTrade, sign: 1 | -1): void {
  const { marketId, chainId, cost, matchedAtMs } = trade
  let market = tally.markets.get(marketId)
  if (market === undefined) {
    market = { chainId, volume: noSum(), trades: 0 }
    tally.markets.set(marketId, market)
  }
  addTo(market.volume, cost, sign)
  market.trades += sign
  for (const spanSec of SPANS_SEC) {
    const startSec = spanStartSec(matchedAtMs, spanSec)
    const key = `${chainId}/${spanSec}/${startSec}`
    let span = tally.spans.get(key)
    if (span === undefined) {
      span = { chainId, spanSec, startSec, volume: noSum(), trades: 0 }
      tally.spans.set(key, span)
    }
    addTo(span.volume, cost, sign)
    span.trades += sign
  }
}

export function candleKey(
  marketId: MarketId,
  outcome: number,
  spanSec: number,
  startSec: number,
): string {
  return `${marketId}/${outcome}/${spanSec}/${startSec}`
}

function addToCandle(tally: Tally, trade: CountedTrade, spanSec: SpanSec): void {
  const { marketId, outcome, price, cost, seq, fillIndex } = trade
  const startSec = spanStartSec(trade.matchedAtMs, spanSec)
  const key = candleKey(marketId, outcome, spanSec, startSec)
  let candle = tally.candles.get(key)
  if (candle === undefined) {
    candle = {
      marketId,
      outcome,
      spanSec,
      startSec,
      open: price,
      high: price,
      low: price,
      close: price,
      volume: noSum(),
      trades: 0,
      firstSeq: seq,
      firstFill: fillIndex,
      lastSeq: seq,
      lastFill: fillIndex,
    }
    tally.candles.set(key, candle)
  }
  candle.high = Math.max(candle.high, price)
  candle.low = Math.min(candle.low, price)
  candle.close = price
  candle.lastSeq = seq
  candle.lastFill = fillIndex
  addTo(candle.volume, cost)
  candle.trades += 1
}

export function marketStatsValues(marketId: MarketId, delta: MarketDelta): Value[] {
  const { chainId, volume, trades } = delta
  return [marketId, chainId, volume.whole, volume.millionths, trades]
}

export function spanValues(delta: SpanDelta, partition: number): Value[] {
  const { chainId, spanSec, startSec, volume, trades } = delta
  return [chainId, partition, spanSec, startSec, volume.whole, volume.millionths, trades]
}

export function candleValues(candle: Candle): Value[] {
  return [
    candle.marketId,
    candle.outcome,
    candle.spanSec,
    candle.startSec,
    candle.open,
    candle.high,
    candle.low,
    candle.close,
    candle.volume.whole,
    candle.volume.millionths,
    candle.trades,
    candle.firstSeq,
    candle.firstFill,
    candle.lastSeq,
    candle.lastFill,
  ]
}
