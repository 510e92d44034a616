/** Merges a market's trades from the list of past trades and from the stream's messages. */

import { ONE } from '#domain/money.ts'
import type { TradesMessage } from '#protocol/shapes/stream.ts'

export type TapeTrade = {
  readonly tradeId: string
  readonly price: number
  readonly size: number
  readonly outcome: 0 | 1
  /** Set in a complementary market if both sides bought (`mint`) or both sold (`merge`); see docs/matching.md. */
  readonly kind?: 'mint' | 'merge' | undefined
  readonly buyer: string
  readonly seller: string
  /**
   * Side of the taker. Undefined for a trade that is known only from the list of past trades, because that list does
   * not contain the side.
   */
  readonly takerSide: 0 | 1 | undefined
  readonly status: string
  /** Hash of the transaction; '' until the trade has one. */
  readonly txHash: string
  /** Reason why the trade failed; '' if it has not failed. */
  readonly reason: string
  readonly ts: number
}

/** Maximum number of trades on the tape. */
export const TAPE_MAX = 100

/**
 * Applies a message to the trades of the tape, newest first. Ignores the status of a trade that is no longer on the
 * tape.
 */
export function applyTrades(
  before: readonly TapeTrade[],
  message: TradesMessage,
): readonly TapeTrade[] {
  switch (message.type) {
    case 'trades.snapshot':
      return joinTapes(
        message.trades.map((trade) => ({ ...trade, reason: '' })).toReversed(),
        before,
      )
    case 'trade':
      if (before.some(({ tradeId }) => tradeId === message.tradeId)) return before
      return [{ ...message, txHash: '', reason: '' }, ...before].slice(0, TAPE_MAX)
    case 'trade.status': {
      const at = before.findIndex(({ tradeId }) => tradeId === message.tradeId)
      const trade = before[at]
      if (trade === undefined) return before
      const { status, txHash, reason } = message
      return before.with(at, { ...trade, status, txHash: txHash || trade.txHash, reason })
    }
  }
}

/**
 * Merges two lists of trades, newest first. If both contain a trade, keeps the version in `first`, but takes a missing
 * `takerSide` from `second`.
 */
export function joinTapes(
  first: readonly TapeTrade[],
  second: readonly TapeTrade[],
): readonly TapeTrade[] {
  const known = new Map(second.map((trade) => [trade.tradeId, trade]))
  for (const trade of first) {
    const takerSide = trade.takerSide ?? known.get(trade.tradeId)?.takerSide
    known.set(trade.tradeId, { ...trade, takerSide })
  }
  return [...known.values()].sort(newestFirst).slice(0, TAPE_MAX)
}

function newestFirst(a: TapeTrade, b: TapeTrade): number {
  return b.ts - a.ts || placeOf(b) - placeOf(a)
}

/**
 * Returns the sort key for trades with the same time. The id of a trade has three parts: market, sequence number of the
 * event, and index of the fill.
 */
function placeOf({ tradeId }: TapeTrade): number {
  const [, seq = '0', fill = '0'] = tradeId.split('-')
  return Number(seq) * 10_000 + Number(fill)
}

type OwnLeg = {
  readonly side: 'buy' | 'sell'
  readonly outcome: 0 | 1
  readonly price: number
}

/**
 * Returns the side, outcome and price of a trade as the account sees them. The trade contains the outcome and price of
 * the maker's order. In a mint, both traders buy: the field `seller` is the taker, who buys the other outcome. In a
 * merge, both traders sell: the field `buyer` is the taker, who sells the other outcome.
 */
export function ownLegOf(
  {
    buyer,
    seller,
    outcome,
    price,
    kind,
  }: Pick<TapeTrade, 'buyer' | 'seller' | 'outcome' | 'price' | 'kind'>,
  address: string | undefined,
): OwnLeg | undefined {
  const own = address?.toLowerCase()
  if (own === undefined) return undefined
  const other = { outcome: outcome === 0 ? 1 : 0, price: ONE - price } as const
  if (buyer.toLowerCase() === own) {
    return kind === 'merge' ? { side: 'sell', ...other } : { side: 'buy', outcome, price }
  }
  if (seller.toLowerCase() !== own) return undefined
  return kind === 'mint' ? { side: 'buy', ...other } : { side: 'sell', outcome, price }
}
