/**
 * Format of the archive. The archive has the events that have left the log, so that the database can be rebuilt from
 * them. The folder `<archive>/<id of the log>/partition-<n>/` has segments: files that never change. The name of a
 * segment has its first and last offset, such as `1-20480.events`. A segment has whole rows of the log, each with its
 * own checksum:
 *
 *   for each block: length, checksum of the compressed bytes | compressed rows (1 MiB or more before compression)
 *   after all blocks: description as JSON | its length and checksum               (numbers big-endian)
 *
 * The last block of a segment may be smaller. A truncated or damaged file is refused, and the error names the file.
 */

import { closeSync, existsSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { inflateRawSync } from 'node:zlib'
import { Fault } from '#domain/fault.ts'
import { type BatchRow, type RowHome, rowCrc } from '../partition/record.ts'
import { sqliteFault } from '../partition/sqlite-fault.ts'

export const ARCHIVE_FORMAT = 1
export const LABEL_BYTES = 8
/** Size of a row's header: first offset, number of events, version, checksum, length. */
export const ROW_HEAD_BYTES = 24
/** Maximum size of a description. It has one entry per block, and a segment has at most a few hundred blocks. */
const META_BYTES_MAX = 1024 * 1024
/**
 * Maximum size of a block. Valid blocks are far smaller: a block ends with the row that reaches 1 MiB, and a row is at
 * most a little over 4 MiB.
 */
const BLOCK_BYTES_MAX = 64 * 1024 * 1024
export const DRAFT = '.new'
const NAME = /^([1-9][0-9]{0,15})-([1-9][0-9]{0,15})\.events$/

/** Description of a segment. */
export type SegmentMeta = {
  readonly format: number
  readonly first: number
  readonly last: number
  /** First offset and file position of each block. */
  readonly blocks: readonly (readonly [firstOffset: number, at: number])[]
}

/** A segment, as its file name describes it. */
export type NamedSegment = { readonly first: number; readonly last: number; readonly path: string }

export function partitionArchive(archiveDir: string, { logId, partition }: RowHome): string {
  return join(archiveDir, logId, `partition-${partition}`)
}

export function segmentName({ first, last }: { first: number; last: number }): string {
  return `${first}-${last}.events`
}

/** Returns the segments of a folder, sorted by offset. */
export function segmentsIn(folder: string): NamedSegment[] {
  if (!existsSync(folder)) return []
  const segments: NamedSegment[] = []
  for (const name of readdirSync(folder)) {
    const [, first, last] = NAME.exec(name) ?? []
    if (first === undefined) continue
    segments.push({ first: Number(first), last: Number(last), path: join(folder, name) })
  }
  return segments.sort((a, b) => a.first - b.first || b.last - a.last)
}

export function blockCrc(home: RowHome, first: number, place: number, bytes: Buffer): number {
  return rowCrc('archive block', home, [first, place], bytes)
}

export function metaCrc(home: RowHome, text: Buffer): number {
  return rowCrc('archive segment', home, [], text)
}

/** Returns the description of a segment, checked against its name. */
export function readSegmentMeta(segment: NamedSegment, home: RowHome): SegmentMeta {
  return withFile(segment, (file) => {
    const { size } = fstatSync(file)
    const label = bytesAt(file, size - LABEL_BYTES, LABEL_BYTES)
    const length = label?.readUInt32BE(0) ?? 0
    const text =
      length > 0 && length <= META_BYTES_MAX
        ? bytesAt(file, size - LABEL_BYTES - length, length)
        : undefined
    if (text === undefined || metaCrc(home, text) !== label?.readUInt32BE(4)) {
      throw damaged(segment, home, 'its end')
    }
    const meta = JSON.parse(text.toString('utf8')) as SegmentMeta
    if (meta.format !== ARCHIVE_FORMAT) {
      throw new Fault(
        'LOG_VERSION_UNKNOWN',
        `${segment.path} has format ${meta.format}, but this program reads only format ${ARCHIVE_FORMAT}`,
        { retryable: false },
      )
    }
    if (meta.first !== segment.first || meta.last !== segment.last) {
      throw damaged(segment, home, 'its name')
    }
    return meta
  })
}

/** Returns the rows of a block; the caller checks each row's own checksum. */
export function readBlock(
  segment: NamedSegment,
  home: RowHome,
  meta: SegmentMeta,
  place: number,
): BatchRow[] {
  return withFile(segment, (file) => {
    const at = meta.blocks[place]?.[1] ?? 0
    const label = bytesAt(file, at, LABEL_BYTES)
    const length = label?.readUInt32BE(0) ?? 0
    const bytes =
      length > 0 && length <= BLOCK_BYTES_MAX ? bytesAt(file, at + LABEL_BYTES, length) : undefined
    if (
      bytes === undefined ||
      blockCrc(home, meta.first, place, bytes) !== label?.readUInt32BE(4)
    ) {
      throw damaged(segment, home, `the block at offset ${meta.blocks[place]?.[0]}`)
    }
    return rowsOf(inflateRawSync(bytes, { maxOutputLength: BLOCK_BYTES_MAX }))
  })
}

function rowsOf(block: Buffer): BatchRow[] {
  const rows: BatchRow[] = []
  for (let at = 0; at < block.length; ) {
    const length = block.readUInt32BE(at + 20)
    const payload = block.subarray(at + ROW_HEAD_BYTES, at + ROW_HEAD_BYTES + length)
    rows.push({
      first_offset: Number(block.readBigUInt64BE(at)),
      count: block.readUInt32BE(at + 8),
      version: block.readUInt32BE(at + 12),
      crc: block.readUInt32BE(at + 16),
      payload,
    })
    at += ROW_HEAD_BYTES + length
  }
  return rows
}

export function damaged({ path, first, last }: NamedSegment, home: RowHome, what: string): Fault {
  return new Fault(
    'LOG_ARCHIVE_DAMAGED',
    `partition ${home.partition}: the archived offsets ${first} to ${last} are damaged ` +
      `(in ${path}, ${what} is wrong); restore this file from a copy`,
    { retryable: false },
  )
}

function withFile<Result>(segment: NamedSegment, read: (file: number) => Result): Result {
  let file: number | undefined
  try {
    file = openSync(segment.path, 'r')
    return read(file)
  } catch (error) {
    throw sqliteFault('LOG_READ_FAILED', segment.path, error)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

function bytesAt(file: number, at: number, length: number): Buffer | undefined {
  if (at < 0) return undefined
  const bytes = Buffer.allocUnsafe(length)
  return readSync(file, bytes, 0, length, at) === length ? bytes : undefined
}
