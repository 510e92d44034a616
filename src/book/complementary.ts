/**
 * Matching over both books of a complementary market. A pair of shares, one YES and one NO, is worth 1. A buy of YES at
 * p also matches a buy of NO at q if together they pay for a pair: p + q ≥ 1. A sell of YES at p also matches a sell of
 * NO at q if together they ask no more than a pair is worth: p + q ≤ 1. The same holds with YES and NO exchanged. So
 * for the taker, a maker in the other book has the effective price `1 − q`. Ordered by effective price, both books are
 * one ladder.
 *
 * The best effective price matches first. At one price, the order that has rested longest matches first, whichever book
 * it is in. The maker gets exactly its price `q`. The taker gets `1 − q`, which is its limit or better. Everything else
 * is as in `match.ts`: the removal of expired and own makers, the maximum number of makers, and the remainder.
 *
 * In the result, a maker on the taker's side comes from the other book. A maker on the opposite side comes from the
 * taker's book.
 *
 * A worked example. These orders rest, in the order of arrival:
 *
 *   sell of YES at 0.60   a 10
 *   buy of NO at 0.40     b 20   (effective price 0.60)
 *   buy of NO at 0.45     c 5    (effective price 0.55)
 *
 * A buy of 40 YES at 0.62 arrives. First it takes 5 from c at 0.55: a mint, in which c pays 0.45. Then it takes 10 from
 * a at 0.60: an ordinary fill, because a came before b. Then it takes 20 from b at 0.60: a mint, in which b pays 0.40.
 * 5 of 40 remain and may rest.
 */

import assert from 'node:assert/strict'
import { complementOf, ONE } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import type { Book } from './book.ts'
import * as layout from './layout.ts'
import type { MatchResult, MatchRules, Taker } from './match.ts'

const { NIL } = layout

/** The two books of a market, from the point of view of the taker. */
export type BookPair = {
  /** The book of the taker's outcome. */
  readonly same: Book
  readonly other: Book
}

export function matchBoth(
  pair: BookPair,
  taker: Taker,
  rules: MatchRules,
  into: MatchResult,
): void {
  const { fills, expired, selfTraded } = into
  fills.clear()
  expired.clear()
  selfTraded.clear()
  into.limited = false
  const { same, other } = pair
  const { side, price, size } = taker
  const { nowSec, makersMax } = rules
  const opposite = side === BUY ? SELL : BUY
  const cancelsOwn = rules.selfTrade === 'cancel-resting'
  let left: number = size
  let filled = 0
  for (let met = 0; left > 0 && crossesEither(pair, side, price); met++) {
    if (met === makersMax) {
      into.limited = true
      break
    }
    const isSame = comesFirst(
      { same, other },
      same.bestOrder(opposite),
      other.bestOrder(side),
      side,
    )
    const book = isSame ? same : other
    const maker = book.bestOrder(isSame ? opposite : side)
    // `traderSlot` is called for each maker instead of once before the loop, because removing an order may free the
    // slot of the taker's trader.
    if (book.expiresAtSecOf(maker) <= nowSec) {
      book.report(maker, 0, expired)
      book.remove(maker)
    } else if (cancelsOwn && book.traderSlotOf(maker) === book.traderSlot(taker.trader)) {
      book.report(maker, 0, selfTraded)
      book.remove(maker)
    } else {
      const quantity = Math.min(book.remainingOf(maker), left)
      left -= quantity
      filled += quantity
      book.fill(maker, quantity, fills)
    }
  }
  if (filled + left !== size) {
    assert.fail(
      `the filled size ${filled} and the open size ${left} must add up to the order size ${size}`,
    )
  }
  into.left = left
}

/** Returns whether an order would match an order of either book. */
export function crossesEither({ same, other }: BookPair, side: Side, price: number): boolean {
  return same.crosses(side, price) || other.crosses(side === BUY ? SELL : BUY, ONE - price)
}

/**
 * Returns the quantity that `matchBoth` would fill, and the effective price of its first fill. Otherwise it works like
 * `preview` in `match.ts`.
 */
export function previewBoth(
  pair: BookPair,
  taker: Taker,
  { nowSec, selfTrade, makersMax }: MatchRules,
  skips?: (book: Book, maker: number) => boolean,
): { readonly filled: number; readonly price: number } {
  const { same, other } = pair
  const { side, trader } = taker
  const opposite = side === BUY ? SELL : BUY
  const sames = same.makers(side, taker.price)
  // In the other book, the taker matches orders of its own side. So it acts like an order of the opposite side at the
  // complementary price.
  const others = other.makers(opposite, complementOf(taker.price))
  const own = selfTrade === 'cancel-resting'
  const owners = {
    same: own ? same.traderSlot(trader) : NIL,
    other: own ? other.traderSlot(trader) : NIL,
  }
  let [left, price, met]: [number, number, number] = [taker.size, 0, 0]
  let [nextSame, nextOther] = [sames.next(), others.next()]
  while (left > 0 && met < makersMax && !(nextSame.done && nextOther.done)) {
    const isSame = comesFirst(
      pair,
      nextSame.done ? NIL : nextSame.value,
      nextOther.done ? NIL : nextOther.value,
      side,
    )
    const [book, owner] = isSame ? [same, owners.same] : [other, owners.other]
    const maker = (isSame ? nextSame.value : nextOther.value) as number
    if (isSame) nextSame = sames.next()
    else nextOther = others.next()
    if (skips?.(book, maker) === true) continue
    met++
    if (book.expiresAtSecOf(maker) <= nowSec) continue
    if (owner !== NIL && book.traderSlotOf(maker) === owner) continue
    const makerPrice = book.priceOf(maker)
    if (price === 0) price = isSame ? makerPrice : ONE - makerPrice
    left -= Math.min(book.remainingOf(maker), left)
  }
  return { filled: taker.size - left, price }
}

/**
 * Returns whether the maker in the taker's book matches before the maker in the other book. NIL means that a book has
 * no maker.
 */
function comesFirst(
  { same, other }: BookPair,
  ofSame: number,
  ofOther: number,
  side: Side,
): boolean {
  if (ofOther === NIL) return true
  if (ofSame === NIL) return false
  const price = same.priceOf(ofSame)
  const effective = ONE - other.priceOf(ofOther)
  if (price !== effective) return side === BUY ? price < effective : price > effective
  return same.arrivalOf(ofSame) < other.arrivalOf(ofOther)
}
