/** Keeps the markets of a board in the order of market lists, and finds a market by the short id of a share link. */

import type { MarketId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import { shortIdOfMarket } from '#domain/share-link.ts'

type Placed = { readonly market: Market }

/** Compares two markets for market lists: by time of creation, then by id. */
export function byCreation(a: Market, b: Market): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)
}

/**
 * Maximum number of changed markets that are inserted or removed one by one. If more have changed, sorting the whole
 * list costs less.
 */
const MOVED_MAX = 256

/**
 * Keeps the markets in order. Sorting 100,000 markets takes more than 100 ms of processor time. So after up
 * to `MOVED_MAX` changes, only the changed markets are moved.
 */
export function makeMarketOrder<Shown extends Placed>(markets: ReadonlyMap<MarketId, Shown>) {
  let sorted: Shown[] | undefined
  /** Markets that were added or removed since the list was last sorted. */
  let moved: Shown[] = []
  const shortIds = new Map<string, Shown>()

  function changed(shown: Shown): void {
    if (sorted === undefined) return
    moved.push(shown)
    if (moved.length <= MOVED_MAX) return
    sorted = undefined
    moved = []
  }

  function place(list: Shown[], shown: Shown): void {
    let [from, to] = [0, list.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (byCreation(list[middle]!.market, shown.market) < 0) from = middle + 1
      else to = middle
    }
    const isThere = list[from] === shown
    const belongs = markets.get(shown.market.id) === shown
    if (belongs && !isThere) list.splice(from, 0, shown)
    else if (!belongs && isThere) list.splice(from, 1)
  }

  return {
    added(shown: Shown): void {
      changed(shown)
      const shortId = shortIdOfMarket(shown.market)
      const other = shortIds.get(shortId)
      if (other === undefined || byCreation(shown.market, other.market) < 0) {
        shortIds.set(shortId, shown)
      }
    },
    removed(shown: Shown): void {
      changed(shown)
      const shortId = shortIdOfMarket(shown.market)
      if (shortIds.get(shortId) === shown) shortIds.delete(shortId)
    },
    byShortId: (shortId: string) => shortIds.get(shortId),
    all(): readonly Shown[] {
      sorted ??= [...markets.values()].sort((a, b) => byCreation(a.market, b.market))
      for (const shown of moved) place(sorted, shown)
      moved = []
      return sorted
    },
  }
}
