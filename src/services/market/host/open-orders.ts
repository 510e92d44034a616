/**
 * Makes pages of a trader’s open orders, the oldest first. Each book lists a trader’s orders by age, so a page is
 * merged from these lists. A page costs one look-up per book with orders of the trader, plus a step over each order
 * older than the page.
 */

import type { Book } from '#book/book.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { byAge, type OpenOrderPlace, OUTCOMES, type Outcome } from '#domain/order.ts'
import { echoOf } from '#domain/order-tags.ts'
import type { OpenOrder } from '#protocol/market.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import type { MarketState } from '../state.ts'

/** A book in which the trader may have orders. */
type TradersBook = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  readonly book: Book
  readonly tagged?: Pick<MarketState['tagged'], 'of' | 'ordersOf'>
}

/** The parts of the market thread that this file uses. */
export type Hosts = {
  readonly markets: ReadonlyMap<MarketId, { readonly state: MarketState }>
  readonly traders: {
    of(trader: Address): Iterable<{
      readonly home: { readonly hosted: { readonly state: MarketState }; readonly outcome: Outcome }
    }>
  }
}

/**
 * Yields the books in which a trader may have orders: of one market, of the markets of one chain, or of all markets.
 */
export function* booksOf(
  thread: Hosts,
  { trader, marketId, chainId }: { trader: Address; marketId?: MarketId; chainId?: number },
): Generator<TradersBook, void, undefined> {
  const hosted = marketId === undefined ? undefined : thread.markets.get(marketId)
  if (marketId !== undefined && hosted === undefined) return
  const places =
    hosted === undefined
      ? thread.traders.of(trader)
      : OUTCOMES.map((outcome) => ({ home: { hosted, outcome } }))
  for (const { home } of places) {
    const { market: where, books, tagged } = home.hosted.state
    if (chainId !== undefined && where.chainId !== chainId) continue
    yield { marketId: where.id, outcome: home.outcome, book: books[home.outcome], tagged }
  }
}

/** Returns a function that counts a trader's open orders in the markets of a chain. */
export function orderCounter(thread: Hosts): (trader: Address, chainId: number) => number {
  return (trader, chainId) => {
    let count = 0
    for (const { book } of booksOf(thread, { trader, chainId })) count += book.countOf(trader)
    return count
  }
}

/** Returns the number of resting orders by chain. */
export function countOrders({ markets }: Hosts): {
  chains: (readonly [chainId: number, orders: number])[]
} {
  const chains = new Map<number, number>()
  for (const { state } of markets.values()) {
    const { chainId } = state.market
    const [yes, no] = state.books
    chains.set(chainId, (chains.get(chainId) ?? 0) + yes.count + no.count)
  }
  return { chains: [...chains] }
}

/** Position of one book in the merge: the next order and its time. */
type Lane = TradersBook & { slot: number; placedAtMs: number }

export function pageOfOrders(
  books: Iterable<TradersBook>,
  trader: Address,
  { after, limit }: { readonly after?: OpenOrderPlace | undefined; readonly limit: number },
  nowSec: number,
): OrdersPage {
  const lanes: Lane[] = []
  let count = 0
  for (const traders of books) {
    const { book } = traders
    const slot = book.oldestOf(trader)
    if (slot < 0) continue
    const sums = book.sumsOfTrader(slot)
    count += sums.count - countExpired(book, slot, nowSec)
    if (after !== undefined && sums.newestMs < after.placedAtMs) continue
    const lane = { ...traders, slot, placedAtMs: book.placedAtMsOf(slot) }
    while (after !== undefined && lane.placedAtMs < after.placedAtMs) advance(lane)
    lanes.push(lane)
  }
  return { orders: merge(lanes, { after, limit }, nowSec), count }
}

/** Counts a trader’s expired orders in a book. Such orders stay in the book until the next expiry check. */
function countExpired(book: Book, oldest: number, nowSec: number): number {
  const next = book.nextExpirySec
  if (next === undefined || next > nowSec) return 0
  let expired = 0
  for (let slot = oldest; slot >= 0; slot = book.youngerOf(slot)) {
    if (book.expiresAtSecOf(slot) <= nowSec) expired++
  }
  return expired
}

function merge(
  lanes: Lane[],
  { after, limit }: { readonly after: OpenOrderPlace | undefined; readonly limit: number },
  nowSec: number,
): OpenOrder[] {
  for (let at = (lanes.length >> 1) - 1; at >= 0; at--) sink(lanes, at)
  const orders: OpenOrder[] = []
  while (orders.length < limit && lanes.length > 0) {
    // Orders of the same millisecond are sorted by hash, across books.
    const { placedAtMs } = lanes[0]!
    const together: OpenOrder[] = []
    while (lanes[0]?.placedAtMs === placedAtMs) {
      const lane = lanes[0]
      const { book, marketId, outcome, tagged } = lane
      if (book.expiresAtSecOf(lane.slot) > nowSec) {
        const resting = book.read(lane.slot)
        const tags = tagged?.of(resting.orderHash)
        const order = {
          ...{ ...resting, marketId, outcome },
          ...(tags === undefined ? {} : echoOf(tags)),
        }
        if (after === undefined || byAge(order, after) > 0) together.push(order)
      }
      advance(lane)
      if (lane.slot < 0) {
        const last = lanes.pop()!
        if (last !== lane) lanes[0] = last
      }
      sink(lanes, 0)
    }
    together.sort(byAge)
    for (const order of together) {
      if (orders.length === limit) break
      orders.push(order)
    }
  }
  return orders
}

function advance(lane: Lane): void {
  lane.slot = lane.book.youngerOf(lane.slot)
  if (lane.slot >= 0) lane.placedAtMs = lane.book.placedAtMsOf(lane.slot)
}

/** Restores the order of the heap below a position. The top of the heap is the book with the oldest order. */
function sink(lanes: Lane[], from: number): void {
  for (let at = from; ; ) {
    let oldest = at
    for (const child of [2 * at + 1, 2 * at + 2]) {
      const lane = lanes[child]
      if (lane !== undefined && lane.placedAtMs < lanes[oldest]!.placedAtMs) oldest = child
    }
    if (oldest === at) return
    const [upper, lower] = [lanes[at]!, lanes[oldest]!]
    lanes[at] = lower
    lanes[oldest] = upper
    at = oldest
  }
}
