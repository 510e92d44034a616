/**
 * The index of past books: for each full segment of the public log it stores the books of the markets that changed. It
 * follows the tree, one segment at a time, and a restart continues at the last stored segment.
 */

import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { MarketId } from '#domain/ids.ts'
import type { Query } from '#store/reads/queries.ts'
import type { StoredBook } from '#store/writes/public-books.ts'
import { type BookChange, changesIn } from '#transparency/book-change.ts'
import { makeSegmentCounter, SEGMENT_EVENTS, SEGMENT_LEAVES } from '#transparency/log-segment.ts'
import { PastBook } from '#transparency/past-book.ts'
import { makeLineReader, readEntry } from '#transparency/public-event.ts'

/** Leaves that are read at once: up to 4 MB. */
const LEAVES_READ = 64
/** Markets whose books stay in memory; the others are read again. */
const BOOKS_KEPT_MAX = 2_000

type BookIndexPorts = {
  readonly query: Query
  store(books: { partition: number; books: readonly StoredBook[] }): Promise<unknown>
}

type Place = { readonly leaf: number; readonly offset: number }

type BookIndex = {
  /** Stores the next full segment of a partition, if there is one; returns whether there was. */
  step(): Promise<boolean>
}

export function makeBookIndex({ query, store }: BookIndexPorts): BookIndex {
  const places = new Map<number, Place>()
  const kept = new Map<MarketId, PastBook>()

  /** Returns where the books of a partition are stored up to; undefined if no leaf follows. */
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
    // Books in memory are ahead of the database until they are stored.
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
        // A rebuilt tree is shorter at first, with the same leaves.
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

/** Reads the changes of a full segment, and where the next one begins. */
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
