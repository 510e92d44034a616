/**
 * Makes past order books and archive files from the stored books and the public log, on a separate thread. Each job
 * reads a limited part of the log.
 */

import { hash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { ArchiveAsk, ArchivePart, PastBookAsk, PastBookRead } from '#api/markets/history.ts'
import { ARCHIVE_BYTES_MAX, ARCHIVE_SEGMENTS_MAX, HISTORY_TAIL_LEAVES_MAX } from '#domain/limits.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import { LevelBook } from '#live/level-book.ts'
import { bookJson } from '#live/market-board.ts'
import { openBook } from '#services/transparency/thread/book-index.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import { faultReply } from '#store/reads/answer-query.ts'
import type { Query } from '#store/reads/queries.ts'
import { checksumOf } from '#stream/checksum.ts'
import { type BookChange, changesIn } from '#transparency/book-change.ts'
import { makeMarketReader } from '#transparency/market-events.ts'
import { PastBook } from '#transparency/past-book.ts'
import { eventsIn } from '#transparency/public-event.ts'
import type { PublicEvent } from '#transparency/public-event-shapes.ts'

/** Number of leaves (entries of the public log) per read; together they have up to 4 MB. */
const LEAVES_READ = 64
const GZIP_LEVEL = 3

type HistoryJobs = {
  pastBook(ask: PastBookAsk): Promise<StoreReply>
  archivePart(ask: ArchiveAsk): Promise<StoreReply>
}

export function makeHistoryJobs(query: Query): HistoryJobs {
  const replying =
    <Ask>(job: (query: Query, ask: Ask) => Promise<unknown>) =>
    async (ask: Ask): Promise<StoreReply> => {
      try {
        return { ok: true, answer: await job(query, ask) }
      } catch (error) {
        return faultReply(error)
      }
    }
  return { pastBook: replying(readPastBook), archivePart: replying(readArchivePart) }
}

type Span = { readonly fromLeaf: number; readonly toLeaf: number }

/**
 * Calls `take` with each event of a market in a range of leaves (entries of the public log). Stops and returns false if
 * `take` returns false. Otherwise returns true.
 */
async function eachEvent<Event>(
  query: Query,
  partition: number,
  { fromLeaf, toLeaf }: Span,
  {
    read,
    take,
  }: { readonly read: (entry: Uint8Array) => Event[]; readonly take: (event: Event) => boolean },
): Promise<boolean> {
  for (let from = fromLeaf; from < toLeaf; from += LEAVES_READ) {
    const count = Math.min(LEAVES_READ, toLeaf - from)
    for (const entry of await query('publicEntries', { partition, from, count })) {
      for (const event of read(entry)) if (!take(event)) return false
    }
  }
  return true
}

/**
 * Returns the range of published entries (leaves) after the last stored book; undefined if too long for one request.
 */
async function tailOf(query: Query, partition: number): Promise<Span | undefined> {
  const [tree] = await query('publicTrees', { partition })
  const fromLeaf = await query('publicBooksEnd', { partition })
  const toLeaf = tree?.publishedSize ?? 0
  return toLeaf - fromLeaf > HISTORY_TAIL_LEAVES_MAX ? undefined : { fromLeaf, toLeaf }
}

async function readPastBook(query: Query, ask: PastBookAsk): Promise<PastBookRead> {
  const { marketId, partition, until } = ask
  const stored = await query('publicBookBefore', { marketId, until })
  const afterSeq = stored?.seq ?? 0
  if (stored !== undefined && 'seq' in until && until.seq === stored.seq) {
    return foundBook(ask, openBook(stored), false)
  }
  const [segment] = await query('publicSegments', { marketId, afterSeq, fromMs: 0, limit: 1 })
  const span = segment ?? (await tailOf(query, partition))
  if (span === undefined) return { state: 'behind' }
  const book = stored === undefined ? new PastBook() : openBook(stored)
  const isLater =
    'seq' in until
      ? ({ seq }: BookChange) => seq > until.seq
      : ({ atMs }: BookChange) => atMs > until.atMs
  const isEnd = await eachEvent(query, partition, span, {
    read: makeMarketReader(marketId, changesIn),
    take(change: BookChange) {
      if (change.seq <= book.seq) return true
      if (isLater(change)) return false
      book.apply(change)
      return true
    },
  })
  if (book.seq === 0) return { state: isEnd ? 'unknown' : 'before' }
  return foundBook(ask, book, isEnd)
}

function foundBook(ask: PastBookAsk, book: PastBook, isNewest: boolean): PastBookRead {
  if (!book.isWhole) return { state: 'before' }
  return { state: 'found', seq: book.seq, isNewest, json: jsonOf(ask, book) }
}

function jsonOf({ marketId, outcome }: PastBookAsk, book: PastBook): string {
  const books = OUTCOMES.map((each) => {
    const levels = new LevelBook()
    for (const side of [BUY, SELL] as const) levels.load(side, book.levels(each, side))
    return levels
  })
  const shown = outcome === undefined ? books : [books[outcome]!]
  const { seq, atMs } = book
  const checksum = outcome === undefined ? undefined : checksumOf(books[outcome]!)
  return bookJson(marketId, shown, { seq, updatedAtMs: atMs, checksum })
}

async function readArchivePart(query: Query, ask: ArchiveAsk): Promise<ArchivePart> {
  const { marketId, partition, fromMs, toMs, afterSeq } = ask
  const limit = ARCHIVE_SEGMENTS_MAX
  const segments: Span[] = await query('publicSegments', { marketId, afterSeq, fromMs, limit })
  if (segments.length < limit) {
    const tail = await tailOf(query, partition)
    if (tail === undefined) return { state: 'behind' }
    segments.push(tail)
  }
  const lines: string[] = []
  let bytes = 0
  let lastSeq = afterSeq
  let isOver = false
  const take = (event: PublicEvent): boolean => {
    if (event.seq <= lastSeq || event.atMs < fromMs) return true
    isOver = event.atMs >= toMs
    if (isOver || bytes >= ARCHIVE_BYTES_MAX) return false
    const line = `${JSON.stringify(event)}\n`
    lines.push(line)
    bytes += line.length
    lastSeq = event.seq
    return true
  }
  let isEnd = true
  for (const span of segments) {
    const read = makeMarketReader(marketId, eventsIn)
    isEnd = await eachEvent(query, partition, span, { read, take })
    if (!isEnd) break
  }
  const hasMore = !isOver && (!isEnd || segments.length === limit)
  if (lines.length === 0) return { state: 'empty' }
  // Compression level 3: the default level takes about twice as long, for a file that is at most a quarter smaller.
  const file = gzipSync(lines.join(''), { level: GZIP_LEVEL })
  const sha256 = hash('sha256', file, 'hex')
  return { state: 'found', file, sha256, events: lines.length, lastSeq, hasMore }
}
