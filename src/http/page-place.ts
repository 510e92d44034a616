/**
 * Cursor for a list of trades from several markets. It identifies the last entry of a page by time, sequence number,
 * index of the fill, and row. Clients send its text back as `before`, and only the exchange interprets it.
 */

import { type Rejection, reject } from '#domain/rejection.ts'

export type PagePlace = {
  readonly atMs: number
  readonly seq: number
  readonly fillIndex: number
  readonly row: number
}

/** Cost of a later page relative to the first page. A later page costs more, because it is read from the database. */
const LATER_PAGE_WEIGHT = 5

/** Returns the cost factor of a read: 1 for the first page, more for a later page. */
export function pageWeight({ before }: { readonly before?: unknown }): number {
  return before === undefined ? 1 : LATER_PAGE_WEIGHT
}

const PLACE = /^([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,10})\.([0-9]{1,15})$/

export function readPlace(before: string | undefined): PagePlace | undefined | Rejection {
  if (before === undefined) return undefined
  const parts = PLACE.exec(before)
  if (parts === null)
    return reject(
      'INVALID_FIELD',
      'before',
      'before must be the value of nextBefore from an earlier page',
    )
  const [atMs = 0, seq = 0, fillIndex = 0, row = 0] = parts.slice(1).map(Number)
  return { atMs, seq, fillIndex, row }
}

export function writePlace(place: PagePlace | undefined): string | null {
  if (place === undefined) return null
  return `${place.atMs}.${place.seq}.${place.fillIndex}.${place.row}`
}
