/**
 * Matching: an incoming order (the taker) trades with resting orders of the other side (the makers).
 *
 * Price comes before time. The taker matches the best price first and, at one price, the maker that has waited longest.
 * It continues while quantity remains and the next maker's price is no worse than its own. Each fill takes the smaller
 * of the two remaining quantities. The price is the maker's: the maker offered it first, and the taker gets its limit
 * or better. A maker without remaining quantity leaves the book. Any other maker keeps its place. The match does not
 * rest the taker's remainder: the caller decides, and then calls `book.rest`.
 *
 * Two kinds of makers are removed without a trade and reported separately. The first kind is expired orders that the
 * expiry timer has not removed yet. The second kind is orders of the taker's own trader: they are removed if
 * `selfTrade` is `cancel-resting`, because a trade with oneself only changes the statistics.
 *
 * A taker matches at most `makersMax` makers, so that no order blocks a market for long. If this limit ends the match,
 * `limited` is true. The taker's price may then still cross the book, so the remainder must be matched again or
 * dropped, never rested.
 *
 * A worked example. Sells rest, best first, in the order of arrival at one price:
 *
 *   0.41   a 10
 *   0.42   b 5 (expired), c 20
 *   0.45   d 50
 *
 * A buy of 40 at 0.43 arrives. It takes 10 from a at 0.41, and a is filled. b is removed as expired. It takes 20 from c
 * at 0.42, and c is filled. d asks 0.45, more than 0.43, and does not match. After two fills, 10 of 40 remain and may
 * rest as a buy at 0.43, now the best bid below the best ask 0.45:
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

/** The fields of the incoming order that matching needs. */
export type Taker = {
  readonly trader: Address
  readonly side: Side
  readonly price: Price
  /** Quantity to trade. */
  readonly size: Shares
}

export type SelfTrade = 'allow' | 'cancel-resting'

export type MatchRules = {
  /** Unix seconds. Makers with an `expiresAtSec` at or before this time have expired. */
  readonly nowSec: number
  readonly selfTrade: SelfTrade
  /** Maximum number of makers that a match trades with or removes. */
  readonly makersMax: number
}

/** Result of a match. One instance serves any number of books: each match overwrites it. */
export class MatchResult {
  /**
   * Makers that traded, in order. Each entry has the quantity `taken`, the maker's `price`, and the maker's `remaining`
   * quantity.
   */
  readonly fills = new OrderList()
  readonly expired = new OrderList()
  readonly selfTraded = new OrderList()
  /** Remaining quantity of the taker. */
  left = 0
  /** True if `makersMax` ended the match although another maker could have matched. */
  limited = false
}

/**
 * Returns the quantity that `match` would fill, and the price of its first fill; 0 without a fill. As in `match`,
 * expired makers and the taker's own orders fill nothing but count towards `makersMax`. Makers for which `skips`
 * returns true are ignored and do not count. The book does not change.
 */
export function preview(
  book: Book,
  taker: Taker,
  { nowSec, selfTrade, makersMax }: MatchRules,
  skips?: (maker: number) => boolean,
): { readonly filled: number; readonly price: number } {
  const own = selfTrade === 'cancel-resting' ? book.traderSlot(taker.trader) : NIL
  let left: number = taker.size
  let price = 0
  let met = 0
  for (const maker of book.makers(taker.side, taker.price)) {
    if (left === 0 || met === makersMax) break
    if (skips?.(maker) === true) continue
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

  if (filled + left !== size) {
    assert.fail(
      `the filled size ${filled} and the open size ${left} must add up to the order size ${size}`,
    )
  }
  into.left = left
}
