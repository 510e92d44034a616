/** Selects and sorts the listed markets. */

import { chanceOf } from '#domain/chance.ts'
import type { Market } from '#protocol/shapes/markets.ts'

export type Sort = 'volume' | 'chance' | 'ends' | 'newest'

export type Filter = {
  readonly words: string
  /** '' means any. */
  readonly category: string
  readonly status: 'open' | 'over' | 'all'
  readonly sort: Sort
  /**
   * True to reverse the order of the list. Without reversal, the first market is the most traded (`volume`), the most
   * likely (`chance`), the soonest to end (`ends`) or the newest (`newest`).
   */
  readonly isReversed: boolean
  /** True to list only markets on the watchlist. */
  readonly isWatched: boolean
}

const YES = 0

/**
 * Returns the spread: the loss per share from buying YES and selling it at once. Returns undefined if a side of the
 * book is empty.
 */
export function spreadOf({ bestBidPrices, bestAskPrices }: Market): number | undefined {
  const bid = bestBidPrices[YES]
  const ask = bestAskPrices[YES]
  return bid === 0 || ask === 0 ? undefined : ask - bid
}

/**
 * Returns whether trading in the market has ended. Trading ends when the expiration has passed, even before the chain
 * reports the end.
 */
export function isOver({ status, expiration }: Market, nowSec: number): boolean {
  return status !== 'open' || expiration <= nowSec
}

export function listedMarkets(
  markets: readonly Market[],
  { words, category, status, sort, isReversed, isWatched }: Filter,
  nowSec: number,
  watched: ReadonlySet<string> = new Set(),
): Market[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean)
  const found = markets.filter((market) => {
    if (market.quick) return false
    if (isWatched && !watched.has(market.id)) return false
    if (category !== '' && market.category !== category) return false
    if (status !== 'all' && isOver(market, nowSec) !== (status === 'over')) return false
    const text = `${market.question} ${market.description}`.toLowerCase()
    return wanted.every((word) => text.includes(word))
  })
  const way = isReversed ? -1 : 1
  return found.sort(
    (a, b) => way * order(sort, a, b) || a.expiration - b.expiration || compare(a.id, b.id),
  )
}

function order(sort: Sort, a: Market, b: Market): number {
  switch (sort) {
    case 'volume':
      return (b.volume24h ?? 0) - (a.volume24h ?? 0)
    case 'chance':
      return (chanceOf(b) ?? -1) - (chanceOf(a) ?? -1)
    case 'ends':
      return a.expiration - b.expiration
    case 'newest':
      return b.createdAt - a.createdAt
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

export function categoriesOf(markets: readonly Market[]): string[] {
  return [...new Set(markets.map(({ category }) => category))].sort()
}
