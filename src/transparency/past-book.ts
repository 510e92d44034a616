/**
 * The books of a market at a time in the past: the total size at each price, computed from public events. The public
 * log is divided into segments. The index of past books stores the books as text, in their state at the end of each
 * segment. So any past book can be computed from a stored book and the events of at most one segment.
 */

import { BUY, OUTCOMES, type Outcome, SELL, type Side } from '#domain/order.ts'
import type { BookChange } from './book-change.ts'

type Levels = Map<number, bigint>
type PastLevel = readonly [price: number, total: bigint]

const SIDES = [BUY, SELL] as const
/** Number of integers in each change of `BookChange.levels`. */
const CHANGE_NUMBERS = 4

export class PastBook {
  /** Sequence number of the last event that was applied. */
  seq = 0
  /** Time of the last event that was applied. */
  atMs = 0
  /**
   * True once the event that opened the market was applied. If the log begins after that event, it stays false and the
   * levels are unknown.
   */
  isWhole = false
  readonly #levels: readonly Levels[] = [new Map(), new Map(), new Map(), new Map()]

  /** Restores a book from the text that `text()` returned. */
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

  apply({ seq, atMs, fact, levels }: BookChange): void {
    this.seq = seq
    this.atMs = atMs
    if (fact === 'opened') this.isWhole = true
    if (fact === 'closed') for (const side of this.#levels) side.clear()
    for (let at = 0; at < levels.length; at += CHANGE_NUMBERS) {
      const [outcome, side] = [levels[at] as Outcome, levels[at + 1] as Side]
      this.#change(outcome, side, levels[at + 2]!, BigInt(levels[at + 3]!))
    }
  }

  /** Returns the levels of one side, best first. */
  levels(outcome: Outcome, side: Side): PastLevel[] {
    const worseFirst = side === BUY ? -1 : 1
    return [...this.#side(outcome, side)].sort(([a], [b]) => (a - b) * worseFirst)
  }

  /** Returns the levels as text; an empty text if the levels are unknown. */
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
