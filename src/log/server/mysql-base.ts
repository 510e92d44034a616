/**
 * A base is a copy of one partition's files as of one row of its log. It is stored in the same database as
 * the log. A machine without local files starts with the base and then reads only the later rows, so earlier
 * rows can be deleted. A thread makes the base from the owner's local files while the owner continues.
 */

import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { type PartitionPaths, removePartition } from '../log-folder.ts'
import { createMark } from '../partition/durable-mark.ts'
import { parseState, STATE_SELECT } from '../partition/schema.ts'
import { type LogRows, type Place, refused } from './mysql-rows.ts'

/**
 * Size of the pieces in which a file is stored, one piece per row. The size is below every server's maximum packet
 * size.
 */
const PIECE_BYTES = 1024 * 1024

/** SQL condition: no base of the partition names this file. */
const IS_UNNAMED = `NOT EXISTS (SELECT 1 FROM log_bases WHERE log_bases.part = log_files.part
  AND INSTR(log_bases.files, CONCAT('"stored":"', log_files.file, '"')) > 0)`

/** Key of the value that a local copy stores with each batch: the last row of the log that the copy has applied. */
export const POSITION = 'row'

/** Last row of the log that a local copy contains. */
export type Position = { readonly seq: number; readonly crc: number }

export function positionOf(meta: Readonly<Record<string, string>>): Position {
  const [seq = '0', crc = '0'] = (meta[POSITION] ?? '').split(' ')
  return { seq: Number(seq), crc: Number(crc) }
}

export function positionText({ seq, crc }: Position): string {
  return `${seq} ${crc}`
}

type BaseFile = {
  /** Name of the file within the partition: `db`, `closed/…` or `snapshots/…`. */
  readonly name: string
  /**
   * Name under which the content is stored. If a file did not change between two bases, both bases use the same stored
   * content.
   */
  readonly stored: string
  readonly bytes: number
  readonly crc: number
}

type Base = Position & { readonly files: readonly BaseFile[] }

/** Returns the last row that the files of a partition contain; no connection may have the files open. */
export function positionIn(paths: PartitionPaths): Position {
  const db = new Database(paths.database, { fileMustExist: true })
  try {
    return positionOf(parseState(db.prepare(STATE_SELECT).get(), paths.database).meta)
  } finally {
    db.close()
  }
}

/**
 * Uploads the files of a partition as a new base. Then deletes the earlier rows of the log, and the files that only
 * older bases use. Only the owner may do this: a fenced owner publishes no base and deletes nothing.
 */
export async function uploadBase(rows: LogRows, draft: PartitionPaths, at: Place): Promise<void> {
  const { part } = rows
  const before = await basesOf(rows)
  if (before.some(({ seq }) => seq >= at.seq)) return
  const known = new Set(before.flatMap(({ files }) => files.map(({ stored }) => stored)))
  const files: BaseFile[] = []
  for (const [name, path] of filesOf(draft)) {
    const bytes = statSync(path).size
    const crc = await crcOf(path)
    // A run of closed orders or a snapshot never changes, so its stored name contains a checksum of its content. The
    // stored name of the database file contains the number of the last row in it.
    const stored = name === 'db' ? `${at.seq}-db` : `${basename(name)}-${crc.toString(16)}`
    files.push({ name, stored, bytes, crc })
    if (known.has(stored) && (await isWhole(rows, stored, bytes))) continue
    let piece = 0
    for await (const body of createReadStream(path, { highWaterMark: PIECE_BYTES })) {
      await rows.change('REPLACE INTO log_files (part, file, piece, body) VALUES (?, ?, ?, ?)', [
        ...[part, stored, piece++, body],
      ])
    }
  }
  await nameBase(rows, at, files)
  await rows.deleteAs(at.epoch, 'log WHERE part = ? AND seq < ?', [part, at.seq])
  await rows.deleteAs(at.epoch, 'log_bases WHERE part = ? AND seq < ?', [part, at.seq])
  await deleteUnnamed(rows, at.epoch)
}

/** Deletes files that only older bases used, and files of an interrupted upload. */
async function deleteUnnamed(rows: LogRows, epoch: number): Promise<void> {
  const unnamed = await rows.rows<{ file: string }>(
    `SELECT DISTINCT file FROM log_files WHERE part = ? AND ${IS_UNNAMED}`,
    [rows.part],
  )
  for (const { file } of unnamed) {
    await rows.deleteAs(epoch, `log_files WHERE part = ? AND file = ? AND ${IS_UNNAMED}`, [
      ...[rows.part, file],
    ])
  }
}

async function nameBase(rows: LogRows, at: Place, files: readonly BaseFile[]): Promise<void> {
  const { part } = rows
  const named = await rows.changeAs(
    at.epoch,
    'REPLACE INTO log_bases (part, seq, crc, files) SELECT ?, ?, ?, ? FROM DUAL WHERE',
    [part, at.seq, at.crc, JSON.stringify(files)],
  )
  if (named > 0) return
  throw refused(
    'LOG_FENCED',
    `another exchange took over partition ${part} before its base (the stored copy of its files) was complete`,
  )
}

/** Returns whether all pieces of a file exist; an incomplete file is uploaded again. */
async function isWhole(rows: LogRows, stored: string, bytes: number): Promise<boolean> {
  const [found] = await rows.rows<{ pieces: number }>(
    'SELECT COUNT(*) AS pieces FROM log_files WHERE part = ? AND file = ?',
    [rows.part, stored],
  )
  return Number(found?.pieces) === Math.ceil(bytes / PIECE_BYTES)
}

/**
 * Replaces local files by the newest base. Returns the last row that the base contains; undefined if there is
 * no base.
 */
export async function fetchBase(
  rows: LogRows,
  paths: PartitionPaths,
): Promise<Position | undefined> {
  const base = (await basesOf(rows)).at(-1)
  if (base === undefined) return undefined
  removePartition(paths)
  mkdirSync(paths.runs, { recursive: true })
  mkdirSync(paths.snapshots, { recursive: true })
  for (const file of base.files) await fetchFile(rows, file, pathOf(paths, file.name))
  const db = new Database(paths.database, { fileMustExist: true })
  db.pragma('journal_mode = WAL')
  const { lastOffset } = parseState(db.prepare(STATE_SELECT).get(), paths.database)
  db.close()
  createMark(paths.mark, lastOffset)
  return base
}

async function fetchFile(rows: LogRows, file: BaseFile, path: string): Promise<void> {
  const target = openSync(path, 'w')
  let bytes = 0
  let crc = 0
  try {
    for (let piece = 0; bytes < file.bytes; piece++) {
      const [found] = await rows.rows<{ body: Buffer }>(
        'SELECT body FROM log_files WHERE part = ? AND file = ? AND piece = ?',
        [rows.part, file.stored, piece],
      )
      if (found === undefined) break
      writeSync(target, found.body)
      crc = crc32(found.body, crc)
      bytes += found.body.length
    }
  } finally {
    closeSync(target)
  }
  if (bytes === file.bytes && crc === file.crc) return
  // The owner may have replaced this base by a newer one during the read. So the caller may retry with the newest base.
  throw new Fault(
    'LOG_BASE_GONE',
    `partition ${rows.part}: the file ${file.name} of its base (the stored copy of its files) is incomplete or damaged`,
    {
      retryable: true,
    },
  )
}

async function basesOf(rows: LogRows): Promise<Base[]> {
  const found = await rows.rows<{ seq: number; crc: number; files: string }>(
    'SELECT seq, crc, files FROM log_bases WHERE part = ? ORDER BY seq',
    [rows.part],
  )
  return found.map(({ seq, crc, files }) => ({ seq, crc, files: JSON.parse(files) as BaseFile[] }))
}

function filesOf(paths: PartitionPaths): [name: string, path: string][] {
  const found: [string, string][] = [['db', paths.database]]
  for (const [name, folder] of [
    ['closed', paths.runs],
    ['snapshots', paths.snapshots],
  ] as const) {
    for (const file of existsSync(folder) ? readdirSync(folder) : [])
      found.push([`${name}/${file}`, join(folder, file)])
  }
  return found
}

function pathOf(paths: PartitionPaths, name: string): string {
  if (name === 'db') return paths.database
  const [folder, file = ''] = name.split('/')
  if (!/^[A-Za-z0-9._-]+$/.test(file) || file.startsWith('.')) {
    throw refused('LOG_CORRUPT', `a base has a file with the invalid name "${name}"`)
  }
  return join(folder === 'closed' ? paths.runs : paths.snapshots, file)
}

async function crcOf(path: string): Promise<number> {
  let crc = 0
  for await (const bytes of createReadStream(path, { highWaterMark: PIECE_BYTES })) {
    crc = crc32(bytes as Buffer, crc)
  }
  return crc
}
