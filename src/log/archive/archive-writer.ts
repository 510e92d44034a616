/**
 * Writes one archive segment: rows of a partition that are about to be deleted from the log. It runs in its own thread
 * (`background-thread.ts`) with its own connection. The file is complete and on the disk before the rows are deleted.
 */

import {
  closeSync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import Database from 'better-sqlite3'
import { syncFolder } from '../log-folder.ts'
import { type BatchRow, batchCrc, corrupt, type RowHome } from '../partition/record.ts'
import {
  ARCHIVE_FORMAT,
  blockCrc,
  DRAFT,
  LABEL_BYTES,
  metaCrc,
  type NamedSegment,
  ROW_HEAD_BYTES,
  type SegmentMeta,
  segmentName,
  segmentsIn,
} from './archive-format.ts'

/** A block is compressed when it has reached this size. */
const BLOCK_BYTES = 1024 * 1024
/** Lowest compression level: it saves nearly as much as the default level, in a quarter of the time. */
const EFFORT = 1

export type ArchiveJob = {
  /** Folder of the partition's segments; created if missing. */
  readonly folder: string
  /**
   * `whole`: folder of the log's archive, with one folder per partition. `bytesMax`: maximum size of the archive in
   * bytes; 0 means unlimited.
   */
  readonly whole: string
  readonly bytesMax: number
  readonly home: RowHome
  readonly database: string
  /**
   * The job copies whole rows from the offset `from` up to the offset `below` (excluded). It stops when it has copied
   * about `segmentBytes` bytes.
   */
  readonly from: number
  readonly below: number
  readonly segmentBytes: number
}

export type Segment = { readonly first: number; readonly last: number }

/** Returns the new segment; undefined if no whole row lies between the job's `from` and `below`. */
export function writeSegment(job: ArchiveJob): Segment | undefined {
  const { folder, home } = job
  const db = new Database(job.database, { readonly: true, fileMustExist: true })
  try {
    mkdirSync(folder, { recursive: true })
    const draft = new SegmentDraft(join(folder, `${job.from}${DRAFT}`), home, job.from)
    try {
      const last = copyRows(db, job, draft)
      if (last < job.from) {
        draft.abandon()
        return undefined
      }
      draft.end(last)
      const segment = { first: job.from, last }
      renameSync(draft.path, join(folder, segmentName(segment)))
      for (const each of [folder, dirname(folder), dirname(dirname(folder))]) syncFolder(each)
      if (job.bytesMax > 0) keepWithin(job.whole, job.bytesMax)
      return segment
    } catch (error) {
      draft.abandon()
      throw error
    }
  } finally {
    db.close()
  }
}

/** Copies the job's rows; returns the last copied offset. */
function copyRows(db: Database.Database, job: ArchiveJob, draft: SegmentDraft): number {
  const { home, from, below, segmentBytes } = job
  let next = from
  let bytes = 0
  const rows = db
    .prepare(
      'SELECT first_offset, count, version, crc, payload FROM batches WHERE first_offset >= ? AND first_offset < ? ORDER BY first_offset',
    )
    .iterate(from, below) as Iterable<BatchRow>
  for (const row of rows) {
    if (row.first_offset + row.count > below || bytes >= segmentBytes) break
    if (row.first_offset !== next || batchCrc(home, row) !== row.crc) {
      throw corrupt(
        `partition ${home.partition}: the batch at offset ${next} is missing or damaged`,
      )
    }
    draft.add(row)
    bytes += row.payload.length
    next += row.count
  }
  return next - 1
}

class SegmentDraft {
  readonly path: string
  readonly #home: RowHome
  readonly #first: number
  readonly #blocks: [number, number][] = []
  #file: number | undefined
  #at = 0
  #parts: Buffer[] = []
  #bytes = 0
  #blockFirst = 0

  constructor(path: string, home: RowHome, first: number) {
    this.path = path
    this.#home = home
    this.#first = first
    this.#file = openSync(path, 'w')
  }

  add(row: BatchRow): void {
    if (this.#bytes === 0) this.#blockFirst = row.first_offset
    const head = Buffer.allocUnsafe(ROW_HEAD_BYTES)
    head.writeBigUInt64BE(BigInt(row.first_offset), 0)
    head.writeUInt32BE(row.count, 8)
    head.writeUInt32BE(row.version, 12)
    head.writeUInt32BE(row.crc, 16)
    head.writeUInt32BE(row.payload.length, 20)
    this.#parts.push(head, row.payload)
    this.#bytes += ROW_HEAD_BYTES + row.payload.length
    if (this.#bytes >= BLOCK_BYTES) this.#flush()
  }

  end(last: number): void {
    this.#flush()
    const meta: SegmentMeta = {
      format: ARCHIVE_FORMAT,
      first: this.#first,
      last,
      blocks: this.#blocks,
    }
    const text = Buffer.from(JSON.stringify(meta))
    this.#write(Buffer.concat([text, labelOf(text.length, metaCrc(this.#home, text))]))
    this.#close()
  }

  abandon(): void {
    this.#close()
    rmSync(this.path, { force: true })
  }

  #flush(): void {
    if (this.#bytes === 0) return
    const bytes = deflateRawSync(Buffer.concat(this.#parts), { level: EFFORT })
    this.#parts = []
    this.#bytes = 0
    const crc = blockCrc(this.#home, this.#first, this.#blocks.length, bytes)
    this.#blocks.push([this.#blockFirst, this.#at])
    this.#write(Buffer.concat([labelOf(bytes.length, crc), bytes]))
  }

  /**
   * Writes bytes and syncs them at once. Otherwise unsynced bytes of this file would accumulate, and a commit of the
   * log would have to wait for them.
   */
  #write(bytes: Buffer): void {
    const file = this.#file!
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done)
    this.#at += bytes.length
    fdatasyncSync(file)
  }

  #close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}

function labelOf(length: number, crc: number): Buffer {
  const label = Buffer.allocUnsafe(LABEL_BYTES)
  label.writeUInt32BE(length, 0)
  label.writeUInt32BE(crc, 4)
  return label
}

/**
 * Removes segments until the archive fits into `bytesMax`. Each time, compares the first remaining segment of every
 * partition, and removes the oldest of these. Never removes the last segment of a partition.
 */
function keepWithin(whole: string, bytesMax: number): void {
  const queues = readdirSync(whole).map((name) => segmentsIn(join(whole, name)).flatMap(withSize))
  let bytes = queues.flat().reduce((sum, { size }) => sum + size, 0)
  while (bytes > bytesMax) {
    const oldest = queues
      .filter((queue) => queue.length > 1)
      .sort((a, b) => (a[0]?.mtimeMs ?? 0) - (b[0]?.mtimeMs ?? 0))[0]
    const gone = oldest?.shift()
    if (gone === undefined) return
    rmSync(gone.path, { force: true })
    bytes -= gone.size
  }
}

type SizedSegment = NamedSegment & { readonly size: number; readonly mtimeMs: number }

/**
 * Returns the segment with its size and modification time; an empty array if another thread has just removed the
 * segment.
 */
function withSize(segment: NamedSegment): SizedSegment[] {
  const found = statSync(segment.path, { throwIfNoEntry: false })
  return found === undefined ? [] : [{ ...segment, size: found.size, mtimeMs: found.mtimeMs }]
}
