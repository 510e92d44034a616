/**
 * Reads archived events that were deleted from the log. `wholeLog` reads archive and log like a single log, from the
 * first event that still exists.
 */

import { Fault } from '#domain/fault.ts'
import type {
  EventForm,
  LogArchive,
  LogEvent,
  LogReader,
  LogRecord,
  RowReader,
} from '../event-log.ts'
import { currentRow, decodeBatch, UPCASTERS, WHOLE } from '../partition/record.ts'
import {
  damaged,
  type NamedSegment,
  partitionArchive,
  readBlock,
  readSegmentMeta,
  type SegmentMeta,
  segmentsIn,
} from './archive-format.ts'

type Block<Event extends LogEvent> = {
  readonly path: string
  readonly place: number
  readonly records: LogRecord<Event>[]
}

export function openArchive<Event extends LogEvent>(
  archiveDir: string,
  { id: logId }: Pick<LogReader<Event>, 'id'>,
  options: { readonly form?: EventForm<Event> } = {},
): LogArchive<Event> {
  const form = options.form ?? (WHOLE as EventForm<Event>)
  /** The last block that was read; the next records are usually in the same block. */
  let last: Block<Event> | undefined
  let lastMeta: { readonly path: string; readonly meta: SegmentMeta } | undefined

  function metaOf(segment: NamedSegment, partition: number): SegmentMeta {
    if (lastMeta?.path !== segment.path) {
      lastMeta = { path: segment.path, meta: readSegmentMeta(segment, { logId, partition }) }
    }
    return lastMeta.meta
  }

  /** Returns all records of the block that contains an offset. */
  function blockAt(segment: NamedSegment, partition: number, offset: number): LogRecord<Event>[] {
    const home = { logId, partition }
    const meta = metaOf(segment, partition)
    const place = meta.blocks.findLastIndex(([first]) => first <= offset)
    if (last?.path === segment.path && last.place === place) return last.records
    const records = readBlock(segment, home, meta, place).flatMap((row) =>
      decodeBatch(home, row, UPCASTERS, form),
    )
    const expected = meta.blocks[place]?.[0]
    const next = meta.blocks[place + 1]?.[0] ?? meta.last + 1
    const isGapless = records.every(({ offset: at }, index) => at === Number(expected) + index)
    if (!isGapless || (records.at(-1)?.offset ?? 0) + 1 !== next) {
      throw damaged(segment, home, `the block at offset ${expected}`)
    }
    last = { path: segment.path, place, records }
    return records
  }

  const segmentsOf = (partition: number) =>
    segmentsIn(partitionArchive(archiveDir, { logId, partition }))

  return {
    spans(partition) {
      const spans: { first: number; last: number }[] = []
      for (const { first, last: end } of segmentsOf(partition)) {
        const before = spans.at(-1)
        if (before !== undefined && first <= before.last + 1) {
          before.last = Math.max(before.last, end)
        } else spans.push({ first, last: end })
      }
      return spans
    },
    read(partition, fromOffset, limit) {
      const segment = segmentsOf(partition).find(
        ({ first, last: end }) => first <= fromOffset && fromOffset <= end,
      )
      if (segment === undefined) return []
      const records = blockAt(segment, partition, fromOffset)
      const start = fromOffset - (records[0]?.offset ?? fromOffset)
      return records.slice(start, start + limit)
    },
    readRows(partition, fromOffset) {
      const segment = segmentsOf(partition).find(
        ({ first, last: end }) => first <= fromOffset && fromOffset <= end,
      )
      if (segment === undefined) return []
      const home = { logId, partition }
      const meta = metaOf(segment, partition)
      const place = meta.blocks.findLastIndex(([first]) => first <= fromOffset)
      const rows = readBlock(segment, home, meta, place).filter(
        ({ first_offset }) => first_offset >= fromOffset,
      )
      if (rows[0]?.first_offset !== fromOffset) {
        throw damaged(segment, home, `the row at offset ${fromOffset}`)
      }
      return rows.map((row) => currentRow(home, row, UPCASTERS, form))
    },
  }
}

/**
 * Returns a log reader that reads events from the archive if the log no longer has them. A read throws if the
 * archive does not have them either.
 */
export function wholeLog<Event extends LogEvent>(
  log: LogReader<Event>,
  archive: LogArchive<Event>,
): LogReader<Event> {
  return {
    ...log,
    firstOffset(partition) {
      const live = log.firstOffset(partition)
      const before = archive.spans(partition).findLast(({ first }) => first < live)
      return before !== undefined && before.last >= live - 1 ? before.first : live
    },
    read: (partition, fromOffset, limit) =>
      readEither(log, archive, { partition, fromOffset }, (from) =>
        from === 'log'
          ? log.read(partition, fromOffset, limit)
          : archive.read(partition, fromOffset, limit),
      ),
  }
}

/** Returns a reader that reads rows from the archive if the log no longer has them, otherwise from the log. */
export function wholeRows<Event extends LogEvent>(
  log: LogReader<Event> & RowReader,
  archive: LogArchive<Event>,
): RowReader {
  return {
    readRows: (partition, fromOffset, limit) =>
      readEither(log, archive, { partition, fromOffset }, (from) =>
        from === 'log'
          ? log.readRows(partition, fromOffset, limit)
          : archive.readRows(partition, fromOffset),
      ),
  }
}

/** Reads from the log, or from the archive if `fromOffset` is before the beginning of the log. */
function readEither<Event extends LogEvent, Read>(
  log: LogReader<Event>,
  archive: LogArchive<Event>,
  { partition, fromOffset }: { readonly partition: number; readonly fromOffset: number },
  read: (from: 'log' | 'archive') => Read[],
): Read[] {
  // A running exchange may truncate the log during the read. The archive then has the events, so the second attempt
  // reads the archive.
  for (let attempt = 0; attempt < 2; attempt++) {
    if (fromOffset < log.firstOffset(partition)) {
      const found = read('archive')
      if (found.length > 0) return found
      throw missing(log, archive, partition, fromOffset)
    }
    try {
      return read('log')
    } catch (error) {
      if (!(error instanceof Fault && error.code === 'LOG_TRUNCATED')) throw error
    }
  }
  throw missing(log, archive, partition, fromOffset)
}

function missing<Event extends LogEvent>(
  log: LogReader<Event>,
  archive: LogArchive<Event>,
  partition: number,
  from: number,
): Fault {
  const live = log.firstOffset(partition)
  const next = archive.spans(partition).find(({ first }) => first > from)?.first ?? live
  const to = Math.min(next, live) - 1
  return new Fault(
    'LOG_ARCHIVE_MISSING',
    `partition ${partition}: offsets ${from} to ${to} are neither in the log nor in its archive; put ` +
      `the missing segments back, or start with a copy of the database that contains offset ${to}`,
    { retryable: false },
  )
}
