/**
 * Defines the format of a snapshot file. The file begins with the chunks, each preceded by its length and checksum. The
 * snapshot's description follows as JSON, and then the length and checksum of the description. Numbers are big-endian.
 */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHUNK_BYTES_MAX, type SnapshotMeta } from '../event-log.ts'
import { corrupt, type RowHome, rowCrc } from '../partition/record.ts'
import { sqliteFault } from '../partition/sqlite-fault.ts'

/** Size of a label: a length and its checksum. A label precedes each chunk, and another label ends the file. */
export const LABEL_BYTES = 8
/** Maximum size of a description. */
const META_BYTES_MAX = 4_096
const NAME = /^(0x[0-9a-f]{64})-([1-9][0-9]{0,15})$/
/** Suffix of a snapshot file that is unfinished or about to be deleted. */
export const DRAFT = '.new'

export type Named = Pick<SnapshotMeta, 'marketId' | 'atOffset'>

export type Subject = Omit<SnapshotMeta, 'chunks'>

/** Counter that makes the names of one thread's unfinished files unique. */
let drafts = 0

/**
 * Returns the file name of a snapshot. The name contains the market and the offset, so two names show which snapshot is
 * newer.
 */
export function nameOf({ marketId, atOffset }: Named): string {
  return `${marketId}-${atOffset}`
}

export function parseName(name: string): Named | undefined {
  const [, marketId, atOffset] = NAME.exec(name) ?? []
  return marketId === undefined
    ? undefined
    : { marketId: marketId as MarketId, atOffset: Number(atOffset) }
}

export function draftOf(named: Named): string {
  return `${nameOf(named)}.${++drafts}${DRAFT}`
}

export function writeLabel(label: Buffer, length: number, crc: number): void {
  label.writeUInt32BE(length, 0)
  label.writeUInt32BE(crc, 4)
}

export function chunkCrc(home: RowHome, of: Subject, place: number, payload: Buffer): number {
  return rowCrc('snapshot chunk', home, [of.marketId, of.atOffset, of.seq, place], payload)
}

export function metaCrc(home: RowHome, text: Buffer): number {
  return rowCrc('snapshot', home, [], text)
}

export function readMeta(path: string, home: RowHome): SnapshotMeta {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const label = readBytes(file, size - LABEL_BYTES, LABEL_BYTES)
    const length = label?.readUInt32BE(0) ?? 0
    const text =
      length > 0 && length <= META_BYTES_MAX
        ? readBytes(file, size - LABEL_BYTES - length, length)
        : undefined
    if (text === undefined || metaCrc(home, text) !== label?.readUInt32BE(4)) {
      throw damaged(path, 'its description')
    }
    return JSON.parse(text.toString('utf8')) as SnapshotMeta
  } finally {
    closeSync(file)
  }
}

export function* readChunks(path: string, home: RowHome, meta: SnapshotMeta): Generator<Buffer> {
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    let at = 0
    for (let place = 0; place < meta.chunks; place++) {
      const label = readBytes(file, at, LABEL_BYTES)
      const length = label?.readUInt32BE(0) ?? 0
      at += LABEL_BYTES
      const payload =
        length > 0 && length <= CHUNK_BYTES_MAX ? readBytes(file, at, length) : undefined
      if (
        payload === undefined ||
        chunkCrc(home, meta, place, payload) !== label?.readUInt32BE(4)
      ) {
        throw damaged(path, `chunk ${place}`)
      }
      at += length
      yield payload
    }
  } catch (error) {
    throw sqliteFault('LOG_READ_FAILED', path, error)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

function readBytes(file: number, at: number, length: number): Buffer | undefined {
  if (at < 0) return undefined
  const bytes = Buffer.allocUnsafe(length)
  return readSync(file, bytes, 0, length, at) === length ? bytes : undefined
}

function damaged(path: string, what: string): Fault {
  return corrupt(
    `${path}: ${what} is damaged; move this snapshot away: the log opens without it if the log ` +
      'still contains all events of the market',
  )
}
