/**
 * Finds a market on the board, or in the database if the market has ended and its thread has unloaded it. If neither
 * has the market, the answer is `MARKET_NOT_FOUND` only if the board is current. Otherwise the market may exist, and
 * the answer is `OVERLOADED`.
 */

import type { MarketId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

export type FoundMarket = {
  readonly market: Market
  readonly closed: CloseReason | undefined
  /** The market's state on the board; undefined if the market was found only in the database. */
  readonly shown: ShownMarket | undefined
}

export type StoredMarket = Market & { readonly closeReason: CloseReason | null }

export type MarketFinder = (marketId: MarketId) => Promise<FoundMarket | Rejection>

export function makeMarketFinder(ports: {
  readonly board: MarketBoard
  readonly storedMarket: (marketId: MarketId) => Promise<StoredMarket | undefined>
}): MarketFinder {
  return async (marketId) => {
    const shown = ports.board.markets.get(marketId)
    if (shown !== undefined) return { market: shown.market, closed: shown.closed, shown }
    const stored = await ports.storedMarket(marketId)
    if (stored !== undefined) {
      return { market: stored, closed: stored.closeReason ?? undefined, shown: undefined }
    }
    return ports.board.isCurrent() ? reject('MARKET_NOT_FOUND', 'marketId') : reject('OVERLOADED')
  }
}
