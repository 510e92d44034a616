/** The trades of a market, as they follow from what was read and what the stream tells. */

import type { TradesMessage } from '#protocol/shapes/stream.ts'

export type TapeTrade = {
  readonly tradeId: string
  readonly price: number
  readonly size: number
  readonly outcome: 0 | 1
  readonly buyer: string
  readonly seller: string
  /** Undefined where a list of the past does not say it. */
  readonly takerSide: 0 | 1 | undefined
  readonly status: string
  /** '' until there is one. */
  readonly txHash: string
  /** Why it failed; '' otherwise. */
  readonly reason: string
  readonly ts: number
}

/** What is shown, and what is kept of it. */
export const TAPE_MAX = 100

/** The newest first. Statuses of trades that are not on the tape any more are of no use. */
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

/** Two tapes as one, the newest first; of a trade that is on both, the first's word counts. */
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

/** Trades of one moment are numbered in their ids: market, sequence number, fill. */
function placeOf({ tradeId }: TapeTrade): number {
  const [, seq = '0', fill = '0'] = tradeId.split('-')
  return Number(seq) * 10_000 + Number(fill)
}

/** Whether the account bought or sold in a trade. */
export function ownSideOf(
  { buyer, seller }: Pick<TapeTrade, 'buyer' | 'seller'>,
  address: string | undefined,
): 'buy' | 'sell' | undefined {
  const own = address?.toLowerCase()
  if (own === undefined) return undefined
  if (buyer.toLowerCase() === own) return 'buy'
  return seller.toLowerCase() === own ? 'sell' : undefined
}
