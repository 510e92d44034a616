/**
 * Many orders that leave a market at once: those of a trader who cancels them all, and of one whose funds
 * were missing. A step takes only so many out, since every order that leaves is an event to be written
 * and told; who asked comes again for the rest.
 */

import type { RestingOrder } from '#book/order-record.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { DEPARTURES_MAX } from '#domain/limits.ts'
import { OUTCOMES, type Outcome } from '#domain/order.ts'
import type { TradeReport } from '#protocol/market.ts'
import { close, type MarketContext, tradersAtFault } from './orders.ts'
import type { MarketState } from './state.ts'
import { excuseOf } from './trades.ts'

/** Orders of the trader in one book: those of them that are wanted, or the oldest, at most so many. */
export function departing(
  { books }: MarketState,
  outcome: Outcome,
  trader: Address,
  { wanted, max }: { readonly wanted: ReadonlySet<OrderHash> | undefined; readonly max: number },
): RestingOrder[] {
  const book = books[outcome]
  if (wanted === undefined) return book.ordersOf(trader, max)
  const found: RestingOrder[] = []
  for (const orderHash of wanted) {
    const resting = found.length < max ? book.find(orderHash) : undefined
    if (resting?.trader === trader) found.push(resting)
  }
  return found
}

/** How many orders the trader has in both books. */
export function ordersOf({ books: [yes, no] }: MarketState, trader: Address): number {
  return yes.countOf(trader) + no.countOf(trader)
}

/**
 * A trade failed by the fault of a trader who has more orders here than leave in one step: takes some out,
 * and answers whether more than that are left. The trade is not undone before, since what goes back to its
 * other side must not meet them again.
 */
export function hasTooMany(
  state: MarketState,
  report: TradeReport,
  context: MarketContext,
): boolean {
  const { fault, buy, sell } = report
  const sides = { buyer: buy.trader, seller: sell.trader }
  const atFault = tradersAtFault({ fault, ...excuseOf(state, report, context) }, sides)
  for (const trader of atFault) {
    if (ordersOf(state, trader) <= DEPARTURES_MAX) continue
    let left = DEPARTURES_MAX
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader, left)) {
        left--
        state.books[outcome].cancel(resting.orderHash)
        close(state, outcome, resting, resting.orderHash, 'unfunded', context)
      }
    }
    return true
  }
  return false
}
