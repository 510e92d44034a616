/**
 * Format of a market's snapshot: a head as JSON, then chunks in any order. Each chunk starts with eight bytes, and the
 * first of them states the content. The value 2 means JSON rows of pending trades, session orders and tags. Any other
 * value is an outcome: the chunk contains orders of that outcome's book.
 *
 * Older versions have fewer kinds of rows. Version 1 has no pending trades, version 2 no session orders, version 3 no
 * tags, and version 5 no settled session orders.
 */

import assert from 'node:assert/strict'
import type { Sequence } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import { OUTCOMES } from '#domain/order.ts'
import type { Snapshot } from '#log/event-log.ts'
import type { HeldRow } from './held.ts'
import type { PendingRow } from './pending.ts'
import type { MarketState } from './state.ts'
import type { TagRow } from './tagged-orders.ts'

const MARK_BYTES = 8
const PENDING = 2

const VERSION = 6
/** Versions that can be read. Version 3 is missing, because its snapshots did not name the sessions. */
const READABLE: ReadonlySet<number> = new Set([1, 2, 4, 5, VERSION])

/** A row of a snapshot: a pending trade, a session order, or tags. */
export type SnapshotRow = PendingRow | HeldRow | TagRow

type SnapshotHead = {
  readonly version: number
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | null
  readonly updatedAtMs: number
  readonly unsettled: number
}

export function headChunk({ market, seq, closed, updatedAtMs, unsettled }: MarketState): Buffer {
  const head: SnapshotHead = {
    version: VERSION,
    market,
    seq,
    closed: closed ?? null,
    updatedAtMs,
    unsettled,
  }
  return Buffer.from(JSON.stringify(head))
}

/** Prefix of a book's chunk. */
export const OUTCOME_MARKS = OUTCOMES.map(markOf)

const PENDING_MARK = markOf(PENDING)

function markOf(kind: number): Buffer {
  const mark = Buffer.alloc(MARK_BYTES)
  mark[0] = kind
  return mark
}

/** Maximum number of rows per chunk. A chunk with this many rows is far below the maximum size of a chunk. */
export const PENDING_ROWS_MAX = 128

export function rowsOf(state: MarketState): SnapshotRow[] {
  return [
    ...state.pending.rows(),
    ...state.held.rows(state),
    ...state.tagged.rows(state, state.updatedAtMs),
  ]
}

export function pendingChunk(rows: readonly SnapshotRow[]): [mark: Buffer, rows: Buffer] {
  return [PENDING_MARK, Buffer.from(JSON.stringify(rows))]
}

/** Reads the head, the chunks of each book, and the rows of pending trades, session orders and tags. */
export function readMarketSnapshot(snapshot: Snapshot): {
  head: SnapshotHead
  books: [Uint8Array[], Uint8Array[]]
  pending: PendingRow[]
  held: HeldRow[]
  tags: TagRow[]
} {
  let head: SnapshotHead | undefined
  const books: [Uint8Array[], Uint8Array[]] = [[], []]
  const pending: PendingRow[] = []
  const held: HeldRow[] = []
  const tags: TagRow[] = []
  for (const chunk of snapshot.chunks) {
    if (head === undefined) {
      head = JSON.parse(chunk.toString('utf8')) as SnapshotHead
      assert(
        READABLE.has(head.version),
        `a market snapshot has the version ${head.version}, which this program cannot read`,
      )
    } else if (chunk[0] === PENDING) {
      for (const row of JSON.parse(chunk.toString('utf8', MARK_BYTES)) as SnapshotRow[]) {
        if (row[0] === 'held' || row[0] === 'settled') held.push(row)
        else if (row[0] === 'tags' || row[0] === 'group') tags.push(row)
        else pending.push(row)
      }
    } else {
      const outcome = chunk[0]
      assert(outcome === 0 || outcome === 1)
      books[outcome].push(chunk.subarray(MARK_BYTES))
    }
  }
  assert(head !== undefined)
  return { head, books, pending, held, tags }
}
