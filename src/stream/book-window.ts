/**
 * The part of a book that the stream shows: the best levels of each side. Subscribers receive these levels as if they
 * were the whole book: a level that drops out is removed, and a level that moves up is added. So a subscriber that
 * applies every message always has the best levels, and no message is larger than the best levels of two sides.
 */

import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import type { LevelBook, ShownLevel } from '#live/level-book.ts'

/** Worst shown price of a side; undefined while all levels are shown. */
type Edge = number | undefined
export type Edges = readonly [bids: Edge, asks: Edge]

export function edgesOf(book: LevelBook): Edges {
  return [book.edge(BUY, BOOK_LEVELS_SHOWN_MAX), book.edge(SELL, BOOK_LEVELS_SHOWN_MAX)]
}

/**
 * Returns the levels to send after these prices of a side have changed. `before` is the worst price in the subscriber's
 * copy of the book. `now` is the worst price that is shown from now on.
 */
export function shownChanges(
  book: LevelBook,
  side: Side,
  prices: Iterable<number>,
  [before, now]: readonly [Edge, Edge],
): ShownLevel[] {
  const isShown = (price: number, edge: Edge): boolean =>
    edge === undefined || (side === BUY ? price >= edge : price <= edge)
  const changes: ShownLevel[] = []
  for (const price of prices) {
    if (isShown(price, now)) changes.push([price, book.total(side, price)])
    else if (isShown(price, before)) changes.push([price, 0])
  }
  if (before === now) return changes
  const changed = new Set(changes.map(([price]) => price))
  const entering = before === undefined ? [] : book.worseThan(side, before, now)
  const leaving = now === undefined ? [] : book.worseThan(side, now, before)
  for (const level of entering) if (!changed.has(level[0])) changes.push(level)
  for (const [price] of leaving) if (!changed.has(price)) changes.push([price, 0])
  return changes
}
