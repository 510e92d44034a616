/** Reads only the book changes of public events. Reading whole events would take twice as long. */

import type { MarketId } from '#domain/ids.ts'
import { BUY, NO, SELL, YES } from '#domain/order.ts'
import { FILL_CELLS, FIRST_FILL_CELL, type FillTail } from './public-event.ts'

export type BookChange = {
  readonly marketId: MarketId
  readonly seq: number
  readonly atMs: number
  /**
   * Set for the event that opens the market, and for the event that closes it. The closing clears the market's books.
   */
  readonly fact?: 'opened' | 'closed'
  /**
   * Four numbers for each change: outcome, side, price and size. The size is added to the total at that
   * price; a negative size reduces the total.
   */
  readonly levels: readonly number[]
}

type Cells = readonly unknown[]
type Fact = { readonly type: string; readonly marketId: MarketId; seq: number; atMs: number }

const NO_LEVELS: readonly number[] = []

/** Returns the book change of each event of an entry. The entry must not be a piece of a long event. */
export function changesIn(lines: readonly string[]): BookChange[] {
  let marketId: MarketId | undefined
  return lines.map((line) => {
    const value = JSON.parse(line) as Cells | Fact
    const change = 'type' in value ? factOf(value) : changeOf(value, marketId)
    marketId = change.marketId
    return change
  })
}

function factOf({ type, marketId, seq, atMs }: Fact): BookChange {
  const head = { marketId, seq, atMs, levels: NO_LEVELS }
  if (type === 'MarketOpened') return { ...head, fact: 'opened' }
  return type === 'MarketClosed' ? { ...head, fact: 'closed' } : head
}

function changeOf(cells: Cells, before: MarketId | undefined): BookChange {
  const marketId = cells[1] === 0 ? before : (cells[1] as MarketId)
  if (marketId === undefined) throw new Error('the first event of an entry has no market id')
  const levels = levelsOf(cells)
  return { marketId, seq: cells[2] as number, atMs: cells[3] as number, levels }
}

function levelsOf(cells: Cells): readonly number[] {
  const side = cells[6] as number
  const outcome = cells[7] as number
  const price = cells[8] as number
  switch (cells[0]) {
    case 'R':
      return [outcome, side, price, cells[10] as number]
    case 'C':
      return [outcome, side, price, -(cells[11] as number)]
    case 'M':
      return fillLevels(cells, outcome, side)
    default:
      throw new Error(`an event is of the unknown kind ${String(cells[0])}`)
  }
}

function fillLevels(cells: Cells, outcome: number, side: number): number[] {
  const last = cells.at(-1)
  const isTail = typeof last === 'object'
  const others = isTail ? (last as FillTail).others : undefined
  const fills = Math.floor((cells.length - (isTail ? 1 : 0) - FIRST_FILL_CELL) / FILL_CELLS)
  const makers = side === BUY ? SELL : BUY
  const levels: number[] = []
  for (let fill = 0; fill < fills; fill++) {
    const at = FIRST_FILL_CELL + fill * FILL_CELLS
    const [price, size] = [cells[at + 2] as number, cells[at + 3] as number]
    // In a mint or a merge, the maker's order is on the same side as the taker's, but of the other outcome.
    if (others?.includes(fill)) levels.push(outcome === YES ? NO : YES, side, price, -size)
    else levels.push(outcome, makers, price, -size)
  }
  return levels
}
