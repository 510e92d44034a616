/**
 * Stores past books: the books of each market at the end of each log segment in which the market changed. Books are
 * derived from the public log, so writing a book again changes nothing.
 */

import type { MarketId } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { statements } from '../engine/statements.ts'

/** A range of leaves of a public log's tree, and the last event of one market in this range. */
type BookSegment = {
  readonly seq: number
  readonly throughMs: number
  readonly fromLeaf: number
  /** The leaf after the last leaf of the segment. */
  readonly toLeaf: number
}

export type StoredBook = BookSegment & {
  readonly marketId: MarketId
  /** Compressed levels of the books; empty if the levels are not known. */
  readonly levels: Uint8Array
}

const COLUMNS = 'market_id, seq, log_partition, through_ms, from_leaf, to_leaf, levels'

/** Stores the books of one segment. */
export async function storeBooks(
  database: Database,
  { partition, books }: { readonly partition: number; readonly books: readonly StoredBook[] },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const { run } = statements(database, connection, transaction)
    for (const { marketId, seq, throughMs, fromLeaf, toLeaf, levels } of books) {
      await run(`replace into public_books (${COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)`, [
        ...[bytesOf(marketId), seq, partition, throughMs, fromLeaf, toLeaf],
        Buffer.from(levels.buffer, levels.byteOffset, levels.byteLength),
      ])
    }
    return true
  })
}

type SegmentRow = Record<'seq' | 'through_ms' | 'from_leaf' | 'to_leaf', number | string>
type BookRow = SegmentRow & { readonly levels: Buffer }

function segmentOf(row: SegmentRow): BookSegment {
  return {
    seq: Number(row.seq),
    throughMs: Number(row.through_ms),
    fromLeaf: Number(row.from_leaf),
    toLeaf: Number(row.to_leaf),
  }
}

/** Returns how many leaves of a partition's tree the stored books cover. */
export async function publicBooksEnd(
  database: Database,
  { partition }: { readonly partition: number },
): Promise<number> {
  const [row] = await rowsOf<{ to_leaf: number | string }>(
    database,
    'select to_leaf from public_books where log_partition = ? order by to_leaf desc limit 1',
    [partition],
  )
  return Number(row?.to_leaf ?? 0)
}

/** Last point of a market's events that a book may include: a sequence number or a time. */
type BookMoment = { readonly seq: number } | { readonly atMs: number }

/** Returns the newest stored book of a market that includes no event after this point. */
export async function publicBookBefore(
  database: Database,
  { marketId, until }: { readonly marketId: MarketId; readonly until: BookMoment },
): Promise<StoredBook | undefined> {
  const [column, value] =
    'seq' in until ? (['seq', until.seq] as const) : (['through_ms', until.atMs] as const)
  const [row] = await rowsOf<BookRow>(
    database,
    `select seq, through_ms, from_leaf, to_leaf, levels from public_books
      where market_id = ? and ${column} <= ? order by ${column} desc, seq desc limit 1`,
    [bytesOf(marketId), value],
  )
  return row && { ...segmentOf(row), marketId, levels: row.levels }
}

/**
 * Returns at most `limit` segments in which the market changed, oldest first. In each of them, the market's last event
 * has a sequence number above `afterSeq`, and a time of `fromMs` or later.
 */
export async function publicSegments(
  database: Database,
  asked: {
    readonly marketId: MarketId
    readonly afterSeq: number
    readonly fromMs: number
    readonly limit: number
  },
): Promise<BookSegment[]> {
  const rows = await rowsOf<SegmentRow>(
    database,
    `select seq, through_ms, from_leaf, to_leaf from public_books
      where market_id = ? and seq > ? and through_ms >= ? order by seq limit ?`,
    [bytesOf(asked.marketId), asked.afterSeq, asked.fromMs, asked.limit],
  )
  return rows.map(segmentOf)
}
