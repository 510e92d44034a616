/**
 * Tables of a partition's file, and the one row that describes the file's content. A file whose schema differs by a
 * single character is refused.
 *
 * The table `state` has, for every other table, the number of rows and the sum of their checksums. Every transaction
 * writes these values, so a row that was lost or added by damage is found at the next open.
 */

import { crc32 } from 'node:zlib'
import type BetterSqlite3 from 'better-sqlite3'
import { corrupt } from './record.ts'

export const FILE_FORMAT = 2

const TABLES = [
  `CREATE TABLE state (id INTEGER PRIMARY KEY, json TEXT NOT NULL, crc INTEGER NOT NULL)`,
  `CREATE TABLE batches (first_offset INTEGER PRIMARY KEY, count INTEGER NOT NULL, version INTEGER NOT NULL, crc INTEGER NOT NULL, payload BLOB NOT NULL)`,
  `CREATE TABLE closed_orders (id INTEGER PRIMARY KEY, forget_min_sec INTEGER NOT NULL, crc INTEGER NOT NULL, payload BLOB NOT NULL)`,
  `CREATE TABLE trade_status (market_id BLOB NOT NULL, seq INTEGER NOT NULL, fill INTEGER NOT NULL, status TEXT NOT NULL, tx_hash TEXT NOT NULL, at_ms INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (market_id, seq, fill)) WITHOUT ROWID`,
  `CREATE TABLE markets (market_id TEXT PRIMARY KEY, first_offset INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE closed_runs (id INTEGER PRIMARY KEY, json TEXT NOT NULL, crc INTEGER NOT NULL)`,
] as const

/** Number of tables in files of old versions, which have no table for runs. */
const TABLES_AT_FIRST = 5

/** Number of rows of a table, and the sum of their checksums modulo 2^48. */
export type Tally = { readonly rows: number; readonly sum: number }

export const EMPTY: Tally = { rows: 0, sum: 0 }

const MODULUS = 2 ** 48

export function plus(tally: Tally, crc: number): Tally {
  return { rows: tally.rows + 1, sum: (tally.sum + crc) % MODULUS }
}

export function minus(tally: Tally, crc: number): Tally {
  return { rows: tally.rows - 1, sum: (tally.sum - crc + MODULUS) % MODULUS }
}

/** Throws if a row was lost or added by damage. */
export function checkTally(found: Tally, stated: Tally, what: string, path: string): void {
  if (found.rows !== stated.rows || found.sum !== stated.sum) {
    throw corrupt(
      found.rows === stated.rows
        ? `${path}: some of the ${found.rows} rows of ${what} are damaged`
        : `${path}: ${stated.rows} rows of ${what} were written, but the file has ${found.rows}`,
    )
  }
}

export type FileState = {
  readonly format: number
  readonly logId: string
  readonly partition: number
  readonly firstOffset: number
  readonly lastOffset: number
  readonly lastMs: number
  readonly closedRowLast: number
  readonly closed: Tally
  /** All rows of closed orders up to and including this row number are in runs. */
  readonly closedSpilledTo: number
  readonly runs: Tally
  readonly trades: Tally
  readonly markets: Tally
  readonly meta: Readonly<Record<string, string>>
}

export function createTables(db: BetterSqlite3.Database, logId: string, partition: number): void {
  db.transaction(() => {
    for (const table of TABLES) db.exec(table)
    const json = JSON.stringify({
      format: FILE_FORMAT,
      logId,
      partition,
      firstOffset: 1,
      lastOffset: 0,
      lastMs: 0,
      closedRowLast: 0,
      closed: EMPTY,
      closedSpilledTo: 0,
      runs: EMPTY,
      trades: EMPTY,
      markets: EMPTY,
      meta: {},
    } satisfies FileState)
    db.prepare('INSERT INTO state VALUES (1, ?, ?)').run(json, crc32(json))
  })()
}

export function checkSchema(db: BetterSqlite3.Database, path: string): void {
  const found = db
    .prepare("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid")
    .pluck()
    .all()
  const known = found.length === TABLES_AT_FIRST ? TABLES.slice(0, TABLES_AT_FIRST) : TABLES
  if (found.length !== known.length || found.some((sql, index) => sql !== known[index])) {
    throw corrupt(`${path}: its tables are not those of a log partition`)
  }
  if (known !== TABLES) db.exec(TABLES[TABLES_AT_FIRST])
}

export const STATE_SELECT = 'SELECT json, crc FROM state WHERE id = 1'

/** Values for a file that never had a run. */
const AT_FIRST = { closedSpilledTo: 0, runs: EMPTY }

export function parseState(row: unknown, path: string): FileState {
  const { json, crc } = (row ?? {}) as { json?: unknown; crc?: unknown }
  if (typeof json !== 'string' || crc32(json) !== crc) {
    throw corrupt(`${path}: the row that describes the file is damaged`)
  }
  const state = JSON.parse(json) as Omit<FileState, keyof typeof AT_FIRST>
  return { ...AT_FIRST, ...state }
}
