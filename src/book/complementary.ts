/**
 * Matching over both books of a complementary market. A buy of YES at p also matches buys of NO at q if p + q
 * ≥ 1. A sell of YES at p also matches sells of NO at q if p + q ≤ 1. The same holds with YES and NO
 * exchanged. So a maker in the other book is worth `1 − q` to the taker: its effective price. Both books are
 * one ladder of effective prices.
 *
 * The best effective price matches first and, at one price, the order that has rested longest, whichever book
 * it is in. The maker gets exactly its price `q`; the taker gets `1 − q`, its limit or better. Everything
 * else is as in `match.ts`: removals of expired and own makers, the maximum number of makers, the remainder.
 *
 * In the result, a maker with the taker's side comes from the other book, and one with the opposite side from
 * the taker's book.
 *
 * A worked example. These orders rest, in the order of arrival:
 *
 *   sell of YES at 0.60   a 10
 *   buy of NO at 0.40     b 20   (effective price 0.60)
 *   buy of NO at 0.45     c 5    (effective price 0.55)
 *
 * A buy of YES of 40 at 0.62 arrives. It takes 5 from c at 0.55 (a mint: c pays 0.45), then 10 from a at 0.60
 * (an ordinary fill: a came before b), then 20 from b at 0.60 (a mint: b pays 0.40). 5 of 40 remain and may
 * rest.
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
    // The slot of the taker's trader is looked up for each maker, because removing an order may free that slot.
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
  if (filled + left !== size) assert.fail(`${filled} filled and ${left} left of ${size}`)
  into.left = left
}

/** Returns whether an order would match an order of either book. */
export function crossesEither({ same, other }: BookPair, side: Side, price: number): boolean {
  return same.crosses(side, price) || other.crosses(side === BUY ? SELL : BUY, ONE - price)
}

/**
 * Returns the quantity that a match over both books would fill, and its first price, like `preview` in `match.ts`. The
 * price is an effective price.
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
  // In the other book, the taker acts like an order of the opposite side at the complementary price.
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
