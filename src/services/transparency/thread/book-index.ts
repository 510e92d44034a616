/**
 * The index of past order books. The public log is divided into segments of a limited number of events and leaves. For
 * each full segment, the index stores the book of every market that changed in the segment, as of the segment's end. It
 * stores one segment at a time. After a restart, it continues after the last stored segment.
 */

import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { MarketId } from '#domain/ids.ts'
import type { Query } from '#store/reads/queries.ts'
import type { StoredBook } from '#store/writes/public-books.ts'
import { type BookChange, changesIn } from '#transparency/book-change.ts'
import { makeSegmentCounter, SEGMENT_EVENTS, SEGMENT_LEAVES } from '#transparency/log-segment.ts'
import { PastBook } from '#transparency/past-book.ts'
import { makeLineReader, readEntry } from '#transparency/public-event.ts'

/** Number of leaves (entries of the public log) per read; together they have up to 4 MB. */
const LEAVES_READ = 64
/** Maximum number of markets whose books stay in memory; other books are read again when needed. */
const BOOKS_KEPT_MAX = 2_000

type BookIndexPorts = {
  readonly query: Query
  store(books: { partition: number; books: readonly StoredBook[] }): Promise<unknown>
}

type Place = { readonly leaf: number; readonly offset: number }

type BookIndex = {
  /** Stores the books of one full segment; returns false if no partition has a full segment. */
  step(): Promise<boolean>
}

export function makeBookIndex({ query, store }: BookIndexPorts): BookIndex {
  const places = new Map<number, Place>()
  const kept = new Map<MarketId, PastBook>()

  /**
   * Returns the leaf after the last stored segment of a partition; undefined if the tree does not have this leaf yet.
   */
  async function placeOf(partition: number): Promise<Place | undefined> {
    const known = places.get(partition)
    if (known !== undefined) return known
    const leaf = await query('publicBooksEnd', { partition })
    const [entry] = await query('publicEntries', { partition, from: leaf, count: 1 })
    if (entry === undefined) return undefined
    const place = { leaf, offset: readEntry(entry).head.first }
    places.set(partition, place)
    return place
  }

  async function bookOf(marketId: MarketId, beforeSeq: number): Promise<PastBook> {
    const known = kept.get(marketId)
    if (known !== undefined) return known
    const until = { seq: beforeSeq - 1 }
    const stored = await query('publicBookBefore', { marketId, until })
    return stored === undefined ? new PastBook() : openBook(stored)
  }

  async function storeSegment(partition: number, from: Place): Promise<Place> {
    const { changes, end } = await readSegment(query, partition, from.leaf)
    const to = end.leaf
    const changed = new Map<MarketId, PastBook>()
    for (const change of changes) {
      let book = changed.get(change.marketId)
      if (book === undefined) {
        book = await bookOf(change.marketId, change.seq)
        changed.set(change.marketId, book)
      }
      book.apply(change)
    }
    const books = [...changed].map(([marketId, book]) => ({
      ...{ marketId, seq: book.seq, throughMs: book.atMs, fromLeaf: from.leaf, toLeaf: to },
      levels: book.isWhole ? deflateRawSync(book.text(), { level: 1 }) : new Uint8Array(0),
    }))
    // Remove the changed books from the cache until they are stored: if storing them fails, the cache must not be newer
    // than the database.
    for (const marketId of changed.keys()) kept.delete(marketId)
    await store({ partition, books })
    for (const [marketId, book] of changed) kept.set(marketId, book)
    for (const marketId of kept.keys()) {
      if (kept.size <= BOOKS_KEPT_MAX) break
      kept.delete(marketId)
    }
    return end
  }

  return {
    async step() {
      for (const { partition, size, nextOffset } of await query('publicTrees', {})) {
        const place = await placeOf(partition)
        // Skip a tree without leaves after the last stored segment. A tree that is being rebuilt gets the same leaves
        // again, and the books of these leaves are already stored.
        if (place === undefined || size <= place.leaf) continue
        const isFull =
          nextOffset - place.offset >= SEGMENT_EVENTS || size - place.leaf >= SEGMENT_LEAVES
        if (!isFull) continue
        places.set(partition, await storeSegment(partition, place))
        return true
      }
      return false
    },
  }
}

/** Restores a stored book. */
export function openBook({ seq, throughMs, levels }: Omit<StoredBook, 'marketId'>): PastBook {
  const text = levels.length === 0 ? '' : inflateRawSync(levels).toString()
  return PastBook.of(seq, throughMs, text)
}

/** Reads the changes in a full segment, and the position at which the next segment begins. */
async function readSegment(
  query: Query,
  partition: number,
  from: number,
): Promise<{ readonly changes: readonly BookChange[]; readonly end: Place }> {
  const changes: BookChange[] = []
  const isLast = makeSegmentCounter()
  const read = makeLineReader()
  for (let leaf = from; ; ) {
    const entries = await query('publicEntries', { partition, from: leaf, count: LEAVES_READ })
    if (entries.length === 0) throw new Error(`the public log has no leaf ${leaf}`)
    for (const entry of entries) {
      leaf++
      const { head, lines } = read(entry)
      for (const change of changesIn(lines)) changes.push(change)
      if (isLast(head)) return { changes, end: { leaf, offset: head.first + head.count } }
    }
  }
}
