/**
 * Removes many orders of one trader: all or certain orders on request, or orders that the trader's funds do not cover.
 * Each removal is an event, so a step removes a limited number of orders, and the caller repeats the step.
 */

import type { RestingOrder } from '#book/order-record.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { DEPARTURES_MAX } from '#domain/limits.ts'
import { OUTCOMES, type Outcome } from '#domain/order.ts'
import type { TradeReport } from '#protocol/market.ts'
import { close, type MarketContext, tradersAtFault } from './orders.ts'
import type { MarketState } from './state.ts'
import { excuseOf } from './trades.ts'

/** Returns orders of the trader in one book: the requested ones, or the oldest up to a limit. */
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

/** Returns the number of the trader's orders in both books. */
export function ordersOf({ books: [yes, no] }: MarketState, trader: Address): number {
  return yes.countOf(trader) + no.countOf(trader)
}

/**
 * Returns whether a trader at fault for the failed trade has more than `DEPARTURES_MAX` orders in this market. If so,
 * removes `DEPARTURES_MAX` of these orders, and the caller rejects the report. The trade is undone only when all
 * remaining orders can be removed in the same step. Otherwise they could match the quantity that returns to the other
 * side’s order.
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
