/**
 * Makes the marks of trades on the price chart: arrows for the account's own fills, dots for the trades of
 * others.
 */

import { decimal } from '../format.ts'
import type { Outcome } from './market-book.ts'
import { ownLegOf, type TapeTrade } from './tape-merge.ts'

export type TradeMark = {
  /** Index of the line on which the mark is drawn. */
  readonly series: number
  /** Start of the candle in which the mark is drawn, Unix seconds. */
  readonly sec: number
  readonly kind: 'buy' | 'sell' | 'other'
  readonly price: number
  /** Number of shares as text; '' if the mark has no text. */
  readonly text: string
}

/**
 * Maximum number of marks of the account's own fills that show their sizes. If the chart has more such marks,
 * none of them shows its size.
 */
const NAMED_MAX = 8

/**
 * Returns the marks, oldest first. Fills of the account in one candle and on one side share a mark. Trades of others in
 * one candle and at one price share a mark. A separate mark for each trade would cover the line.
 */
export function tradeMarks(
  tape: readonly TapeTrade[],
  how: {
    readonly shown: readonly Outcome[]
    readonly intervalSec: number
    readonly owner: string | undefined
    /** True to mark the trades of others too. False for candles, because candles already include these trades. */
    readonly hasOthers: boolean
  },
): readonly TradeMark[] {
  const marks = new Map<string, TradeMark & { readonly size: number }>()
  for (const trade of tape.toReversed()) {
    const own = ownLegOf(trade, how.owner)
    const kind = own?.side ?? 'other'
    const { outcome, price } = own ?? trade
    const series = how.shown.indexOf(outcome === 0 ? 'YES' : 'NO')
    if (series === -1 || trade.status === 'failed' || (kind === 'other' && !how.hasOthers)) continue
    const tradeSec = Math.floor(trade.ts / 1_000)
    const sec = tradeSec - (tradeSec % how.intervalSec)
    const key = `${series} ${sec} ${kind === 'other' ? price : kind}`
    const size = trade.size + (marks.get(key)?.size ?? 0)
    const text = kind === 'other' ? '' : decimal(size, 0)
    marks.set(key, { series, sec, kind, price, text, size })
  }
  const all = [...marks.values()]
  const named = all.filter(({ kind }) => kind !== 'other').length <= NAMED_MAX
  return all.map(({ size: _, ...mark }) => (named ? mark : { ...mark, text: '' }))
}
