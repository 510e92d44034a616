/**
 * Orders with a time in force: post only, immediate or cancel, fill or kill. The check runs before anything matches, so
 * a refused order has changed nothing.
 */

import { preview } from '#book/match.ts'
import type { OrderHash } from '#domain/ids.ts'
import { MAKERS_PER_ORDER_MAX } from '#domain/limits.ts'
import type { TimeInForce, VerifiedOrder } from '#domain/order.ts'
import { notFilled, type Rejection, wouldMatch } from '#domain/rejection.ts'
import type { MarketState } from './state.ts'

export function timeInForceFlaw(
  state: MarketState,
  order: VerifiedOrder,
  timeInForce: TimeInForce,
  {
    nowSec,
    replaced,
  }: { readonly nowSec: number; readonly replaced?: ReadonlySet<OrderHash> | undefined },
): Rejection | undefined {
  const rules = { nowSec, selfTrade: state.rules.selfTrade, makersMax: MAKERS_PER_ORDER_MAX }
  const book = state.books[order.outcome]
  const skips =
    replaced === undefined ? undefined : (maker: number) => replaced.has(book.read(maker).orderHash)
  const { filled, price } = preview(book, order, rules, skips)
  switch (timeInForce) {
    case 'POST_ONLY':
      return price === 0 ? undefined : wouldMatch(price)
    case 'IOC':
      return filled > 0 ? undefined : notFilled(filled, order.size)
    case 'FOK':
      return filled === order.size ? undefined : notFilled(filled, order.size)
  }
}
