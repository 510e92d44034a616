/**
 * Checks orders with a time in force: post only, immediate or cancel, fill or kill. An order is checked before any part
 * of it matches, so a refused order changes nothing.
 */

import type { Book } from '#book/book.ts'
import { previewBoth } from '#book/complementary.ts'
import { type MatchRules, preview } from '#book/match.ts'
import type { OrderHash } from '#domain/ids.ts'
import { MAKERS_PER_ORDER_MAX } from '#domain/limits.ts'
import { isComplementary } from '#domain/market.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import { type TimeInForce, timeInForceFlaw } from '#domain/time-in-force.ts'
import { pairOf } from './orders.ts'
import type { MarketState } from './state.ts'

export function flawAgainstBook(
  state: MarketState,
  order: VerifiedOrder,
  timeInForce: TimeInForce,
  {
    nowSec,
    replaced,
  }: { readonly nowSec: number; readonly replaced?: ReadonlySet<OrderHash> | undefined },
): Rejection | undefined {
  const rules = { nowSec, selfTrade: state.rules.selfTrade, makersMax: MAKERS_PER_ORDER_MAX }
  return timeInForceFlaw(timeInForce, previewOf(state, order, rules, replaced), order.size)
}

function previewOf(
  state: MarketState,
  order: VerifiedOrder,
  rules: MatchRules,
  replaced: ReadonlySet<OrderHash> | undefined,
): ReturnType<typeof preview> {
  const leaves = (of: Book, maker: number) => replaced?.has(of.read(maker).orderHash) === true
  if (isComplementary(state.market)) {
    const skips = replaced === undefined ? undefined : leaves
    return previewBoth(pairOf(state, order.outcome), order, rules, skips)
  }
  const book = state.books[order.outcome]
  const skips = replaced === undefined ? undefined : (maker: number) => leaves(book, maker)
  return preview(book, order, rules, skips)
}
