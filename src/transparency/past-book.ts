/**
 * A market's books as they were: the total size at each price, from public events. The index of past books stores them
 * as text at the end of each segment of the log, so that any past book needs the events of at most one more segment.
 */

import { BUY, NO, OUTCOMES, type Outcome, SELL, type Side, YES } from '#domain/order.ts'
import type { PublicEvent } from './public-event.ts'

type Levels = Map<number, bigint>
type PastLevel = readonly [price: number, total: bigint]

const SIDES = [BUY, SELL] as const

export class PastBook {
  /** Number of the last event that was applied. */
  seq = 0
  /** Time of that event. */
  atMs = 0
  /** False if the log begins after the market was created: the levels are then unknown. */
  isWhole = false
  readonly #levels: readonly Levels[] = [new Map(), new Map(), new Map(), new Map()]

  /** Restores a book that `text` wrote. */
  static of(seq: number, atMs: number, text: string): PastBook {
    const book = new PastBook()
    book.seq = seq
    book.atMs = atMs
    book.isWhole = text !== ''
    for (const [at, list] of text.split('|').entries()) {
      const levels = book.#levels[at]
      if (levels === undefined || list === '') continue
      for (const level of list.split(',')) {
        const [price = '', total = ''] = level.split(':')
        levels.set(Number(price), BigInt(total))
      }
    }
    return book
  }

  apply(event: PublicEvent): void {
    this.seq = event.seq
    this.atMs = event.atMs
    switch (event.type) {
      case 'MarketOpened':
        this.isWhole = true
        break
      case 'OrderRested':
        this.#change(event.outcome, event.side, event.price, BigInt(event.added))
        break
      case 'OrdersMatched': {
        const { outcome, side } = event.taker
        const makers = side === BUY ? SELL : BUY
        for (const { price, size, kind } of event.fills) {
          // The maker of a mint or a merge is on the same side of the other outcome.
          if (kind === undefined) this.#change(outcome, makers, price, -BigInt(size))
          else this.#change(outcome === YES ? NO : YES, side, price, -BigInt(size))
        }
        break
      }
      case 'OrderClosed':
        this.#change(event.outcome, event.side, event.price, -BigInt(event.remaining))
        break
      case 'MarketClosed':
        for (const levels of this.#levels) levels.clear()
        break
      default:
    }
  }

  /** Returns the levels of one side, best first. */
  levels(outcome: Outcome, side: Side): PastLevel[] {
    const worseFirst = side === BUY ? -1 : 1
    return [...this.#side(outcome, side)].sort(([a], [b]) => (a - b) * worseFirst)
  }

  /** Returns the levels as text; empty if they are not known. */
  text(): string {
    if (!this.isWhole) return ''
    return OUTCOMES.flatMap((outcome) => SIDES.map((side) => this.levels(outcome, side)))
      .map((levels) => levels.map(([price, total]) => `${price}:${total}`).join(','))
      .join('|')
  }

  #side(outcome: Outcome, side: Side): Levels {
    return this.#levels[outcome * SIDES.length + side]!
  }

  #change(outcome: Outcome, side: Side, price: number, by: bigint): void {
    const levels = this.#side(outcome, side)
    const total = (levels.get(price) ?? 0n) + by
    if (total === 0n) levels.delete(price)
    else levels.set(price, total)
  }
}
