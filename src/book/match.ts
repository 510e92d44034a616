/**
 * Matching: an incoming order, the taker, meets the orders that rest on the other side, the makers.
 *
 * Price comes before time. The taker meets the best price first and, at one price, the maker that
 * has waited longest. It goes on as long as something of it remains and the next maker's price is no
 * worse than its own. Each meeting is a fill of as much as both have, at the maker's price: the
 * maker named it first and has been waiting for it, and the taker gets what it asked for or better.
 * A maker that is used up leaves the book; one that is not keeps its place. What remains of the
 * taker does not rest by itself: its caller decides, and then calls `book.rest`.
 *
 * Two kinds of makers are removed without a trade and reported apart. Those that have expired,
 * whatever the timer has or has not done about them; and, where `selfTrade` is `cancel-resting`,
 * those of the taker's own trader, because a trade with oneself moves nothing but the statistics.
 *
 * One taker meets at most `makersMax` makers, so that no order holds a market up for long. When
 * that ends the match, `limited` says so: then the book may still cross the taker's price, and its
 * remainder must be matched on or given up, never rested.
 *
 * A worked example. Sells rest, best first, in the order of arrival at one price:
 *
 *   0.41   a 10
 *   0.42   b 5 (expired), c 20
 *   0.45   d 50
 *
 * A buy of 40 at 0.43 comes. It takes 10 from a at 0.41, and a is filled; b is removed as expired;
 * it takes 20 from c at 0.42, and c is filled; d asks 0.45, more than 0.43, and is not met. Two
 * fills, 10 of 40 remain and may rest as a buy at 0.43, now the best bid below the best ask 0.45:
 *
 *   fills   a 10 at 0.41 (0 remain), c 20 at 0.42 (0 remain)
 *   expired b 5
 *   left    10
 */

import assert from 'node:assert/strict'
import type { Address } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import type { Book } from './book.ts'
import * as layout from './layout.ts'
import { OrderList } from './order-list.ts'

const { NIL } = layout

/** What matching needs to know of the incoming order. */
export type Taker = {
  readonly trader: Address
  readonly side: Side
  readonly price: Price
  /** How much it wants to trade. */
  readonly size: Shares
}

export type SelfTrade = 'allow' | 'cancel-resting'

export type MatchRules = {
  /** Makers whose `expiresAtSec` is not after this have expired. */
  readonly nowSec: number
  readonly selfTrade: SelfTrade
  /** How many makers the taker may meet, traded with or removed. */
  readonly makersMax: number
}

/** What came of a match. One is enough for any number of books: each match overwrites it. */
export class MatchResult {
  /** Makers traded with, in order: `taken` at `price`, and what is `remaining` of the maker. */
  readonly fills = new OrderList()
  readonly expired = new OrderList()
  readonly selfTraded = new OrderList()
  /** What is left of the taker. */
  left = 0
  /** Whether `makersMax` ended the match while there was more to meet. */
  limited = false
}

/**
 * What a match would come to: how much would be filled, and at which price first, 0 for none. Makers
 * that would be removed without a trade count as they do in a match, and nothing changes.
 */
export function preview(
  book: Book,
  taker: Taker,
  { nowSec, selfTrade, makersMax }: MatchRules,
): { readonly filled: number; readonly price: number } {
  const own = selfTrade === 'cancel-resting' ? book.traderSlot(taker.trader) : NIL
  let left: number = taker.size
  let price = 0
  let met = 0
  for (const maker of book.makers(taker.side, taker.price)) {
    if (left === 0 || met === makersMax) break
    met++
    if (book.expiresAtSecOf(maker) <= nowSec) continue
    if (own !== NIL && book.traderSlotOf(maker) === own) continue
    if (price === 0) price = book.read(maker).price
    left -= Math.min(book.remainingOf(maker), left)
  }
  return { filled: taker.size - left, price }
}

export function match(book: Book, taker: Taker, rules: MatchRules, into: MatchResult): void {
  const { fills, expired, selfTraded } = into
  fills.clear()
  expired.clear()
  selfTraded.clear()
  into.limited = false
  const { side, price, size } = taker
  const { nowSec, makersMax } = rules
  const opposite = side === BUY ? SELL : BUY
  let left: number = size
  let filled = 0
  let met = 0
  let own: number = NIL
  if (book.crosses(side, price) && rules.selfTrade === 'cancel-resting') {
    own = book.traderSlot(taker.trader)
  }

  while (left > 0 && book.crosses(side, price)) {
    if (met === makersMax) {
      into.limited = true
      break
    }
    met++
    const maker = book.bestOrder(opposite)
    if (book.expiresAtSecOf(maker) <= nowSec) {
      book.report(maker, 0, expired)
      book.remove(maker)
      continue
    }
    if (own !== NIL && book.traderSlotOf(maker) === own) {
      book.report(maker, 0, selfTraded)
      book.remove(maker)
      continue
    }
    const quantity = Math.min(book.remainingOf(maker), left)
    left -= quantity
    filled += quantity
    book.fill(maker, quantity, fills)
  }

  if (filled + left !== size) assert.fail(`${filled} filled and ${left} left of ${size}`)
  into.left = left
}
