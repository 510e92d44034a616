/**
 * Copy of a MySQL or MariaDB database: one compressed file per table. The first line of a file has the table's
 * definition and columns; each further line is a row as a JSON array of strings. Bytes are hexadecimal. All tables are
 * read in one transaction, so the copy shows the database at one instant.
 */

import { createReadStream, createWriteStream, existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type { MySqlConnection } from '@mikro-orm/mysql'
import { Fault } from '#domain/fault.ts'
import { closeDatabase, type Database, sqlConnection } from '../engine/database.ts'
import { storeFault } from '../engine/store-fault.ts'
import { openDatabase } from '../open-database.ts'

type Pool = Awaited<ReturnType<MySqlConnection['getNativeClient']>>
type Connection = Parameters<Parameters<Pool['getConnection']>[0]>[1]

type Column = { readonly name: string; readonly isBinary: boolean }
type Head = { readonly table: string; readonly create: string; readonly columns: readonly Column[] }
type Field = { readonly name: string; string(): string | null; buffer(): Buffer | null }

const END = '.rows.gz'
/** Maximum number of rows per statement, and approximate maximum number of characters of these rows. */
const ROWS_MAX = 500
const CHARACTERS_MAX = 1_000_000
/**
 * Tables of an event log in the same database. These tables are copied with the log instead (`src/log/copy-log.ts`).
 */
const LOG_TABLES = ['log', 'log_homes', 'log_bases', 'log_files']
/**
 * The table that is restored first. The event log is restored after all tables. So if the restore is interrupted, the
 * database has checkpoints but there is no log, and the exchange refuses to start.
 */
const FIRST = 'checkpoints'

export async function tablesOnServer(url: string): Promise<string[]> {
  return onServer(url, true, tables)
}

export async function dumpServer(url: string, folder: string): Promise<void> {
  await onServer(url, true, async (connection) => {
    await query(connection, 'set session transaction isolation level repeatable read')
    await query(connection, 'start transaction with consistent snapshot, read only')
    for (const table of await tables(connection)) await dumpTable(connection, table, folder)
    await query(connection, 'commit')
  })
}

async function dumpTable(connection: Connection, table: string, folder: string): Promise<void> {
  const [made] = await query<Record<string, string>>(connection, `show create table \`${table}\``)
  const columns = await columnsOf(connection, table)
  const head: Head = { table, create: made?.['Create Table'] ?? '', columns }
  const list = columns.map(({ name }) => `\`${name}\``).join(', ')
  const isBinary = new Set(columns.filter((column) => column.isBinary).map(({ name }) => name))
  const rows = connection
    .query({
      sql: `select ${list} from \`${table}\``,
      rowsAsArray: true,
      typeCast: (field: Field) =>
        isBinary.has(field.name) ? (field.buffer()?.toString('hex') ?? null) : field.string(),
    })
    .stream({ highWaterMark: ROWS_MAX })
  await pipeline(
    Readable.from(linesOf(head, rows)),
    createGzip({ level: 1 }),
    createWriteStream(join(folder, `${table}${END}`), { flags: 'wx' }),
  )
}

async function* linesOf(head: Head, rows: AsyncIterable<unknown>): AsyncGenerator<string> {
  yield `${JSON.stringify(head)}\n`
  for await (const row of rows) yield `${JSON.stringify(row)}\n`
}

export async function fillServer(url: string, folder: string): Promise<void> {
  const names = readdirSync(folder).filter((name) => name.endsWith(END))
  const isFirst = (name: string) => (name === `${FIRST}${END}` ? 0 : 1)
  names.sort((a, b) => isFirst(a) - isFirst(b))
  await onServer(url, false, async (connection) => {
    for (const name of names) await fillTable(connection, join(folder, name))
  })
}

async function fillTable(connection: Connection, path: string): Promise<void> {
  const lines = createInterface({ input: createReadStream(path).pipe(createGunzip()) })
  let head: Head | undefined
  let part: (string | null)[][] = []
  let characters = 0
  const flush = async () => {
    if (head !== undefined && part.length > 0) await insert(connection, head, part)
    part = []
    characters = 0
  }
  for await (const line of lines) {
    if (head === undefined) {
      head = JSON.parse(line) as Head
      await query(connection, head.create)
      await query(connection, 'start transaction')
      continue
    }
    part.push(JSON.parse(line) as (string | null)[])
    characters += line.length
    if (part.length === ROWS_MAX || characters >= CHARACTERS_MAX) await flush()
  }
  await flush()
  await query(connection, 'commit')
}

/** Returns one column of a table in a copy; empty if the copy has no such table. */
export async function columnInCopy(
  folder: string,
  table: string,
  column: string,
): Promise<(string | null)[]> {
  const path = join(folder, `${table}${END}`)
  if (!existsSync(path)) return []
  const lines = createInterface({ input: createReadStream(path).pipe(createGunzip()) })
  const values: (string | null)[] = []
  let place: number | undefined
  for await (const line of lines) {
    if (place === undefined) {
      place = (JSON.parse(line) as Head).columns.findIndex(({ name }) => name === column)
    } else values.push((JSON.parse(line) as (string | null)[])[place] ?? null)
  }
  return values
}

async function insert(
  connection: Connection,
  { table, columns }: Head,
  rows: readonly (readonly (string | null)[])[],
): Promise<void> {
  const list = columns.map(({ name }) => `\`${name}\``).join(', ')
  const marks = `(${columns.map(() => '?').join(', ')})`
  const values = rows.flatMap((row) =>
    columns.map(({ isBinary }, place) => {
      const value = row[place] ?? null
      return isBinary && value !== null ? Buffer.from(value, 'hex') : value
    }),
  )
  await query(
    connection,
    `insert into \`${table}\` (${list}) values ${rows.map(() => marks).join(', ')}`,
    values,
  )
}

async function tables(connection: Connection): Promise<string[]> {
  const rows = await query<{ name: string }>(
    connection,
    `select table_name as name from information_schema.tables
      where table_schema = database() and table_name not in (${LOG_TABLES.map(() => '?').join(', ')})
      order by table_name`,
    LOG_TABLES,
  )
  return rows.map(({ name }) => name)
}

async function columnsOf(connection: Connection, table: string): Promise<Column[]> {
  const rows = await query<{ name: string; type: string; extra: string }>(
    connection,
    `select column_name as name, data_type as type, extra from information_schema.columns
      where table_schema = database() and table_name = ? order by ordinal_position`,
    [table],
  )
  return rows
    .filter(({ extra }) => !/generated/i.test(extra))
    .map(({ name, type }) => ({ name, isBinary: /binary|blob/.test(type) }))
}

/** Runs work on a separate connection, because a transaction belongs to one connection. */
async function onServer<Result>(
  url: string,
  readOnly: boolean,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const database: Database = await openDatabase(url, {
    readOnly,
    connectionsMax: 1,
    silentMsMax: Number.POSITIVE_INFINITY,
  })
  try {
    const driver: unknown = sqlConnection(database)
    const pool = await (driver as MySqlConnection).getNativeClient()
    const connection = await new Promise<Connection>((resolve, reject) => {
      pool.getConnection((error, got) => (error ? reject(error) : resolve(got)))
    })
    try {
      return await work(connection)
    } finally {
      connection.destroy()
    }
  } catch (error) {
    throw error instanceof Fault ? error : storeFault(error)
  } finally {
    await closeDatabase(database)
  }
}

function query<Row>(
  connection: Connection,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    connection.query(sql, [...values], (error, rows) =>
      error ? reject(error) : resolve(rows as unknown as Row[]),
    )
  })
}
