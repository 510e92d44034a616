/**
 * The database of a simulation: the real statements on SQLite in memory. A transaction is atomic; on its way to the
 * server and back it may be slow, fail before the commit, or fail after it. Each process has its own connection.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MikroORM } from '@mikro-orm/core'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import type { Database as DatabaseFile } from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { closeDatabase, type Database, ormOptions, sqlConnection } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { answerQuery, faultReply, type QueryTask } from '#store/reads/answer-query.ts'
import { openNeeds } from '#store/reads/open-needs.ts'
import { askQuery } from '#store/reads/queries.ts'
import type { Reads } from '#store/reads/reads.ts'
import { makeMigratedFile } from '../support/migrated-database.ts'
import { type Random, randomFrom } from '../support/random.ts'
import type { Faults } from './faults.ts'
import { type Life, type Scheduler, Violation } from './scheduler.ts'

/** Tables of the current simulation. A process runs one simulation at a time. */
export type Tables = { readonly database: Database; readonly file: DatabaseFile }

/**
 * A database in a file has no table of leases, because it belongs to one process. So the simulation creates the table
 * that a database server would have. Times are milliseconds of the server's clock.
 */
const LEASES =
  'drop table if exists leases; create table leases ' +
  '(role text primary key, holder text, epoch integer, expires_at real, writes integer)'

/** The clock of the database server. */
let serverMs = () => 0

const PATH = ':memory:'

let opening: Promise<Tables> | undefined

/** Returns empty tables of a server with this clock. Earlier simulations of this process must have ended. */
export async function emptyTables(nowMs: () => number): Promise<Tables> {
  serverMs = nowMs
  opening ??= openTables()
  const { database, file } = await opening
  const tables = file
    .prepare<[], { name: string }>("select name from sqlite_master where type = 'table'")
    .all()
    .map(({ name }) => name)
    .filter((name) => name !== 'migrations')
  for (const name of tables) file.exec(`delete from "${name}"`)
  return { database, file }
}

async function openTables(): Promise<Tables> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-simulate-'))
  try {
    const path = join(folder, 'template.db')
    await makeMigratedFile(path)
    const template = await openDatabase(`sqlite:${path}`)
    const from = await fileOf(template)
    from.pragma('journal_mode = DELETE')
    const options = await ormOptions({ dialect: 'sqlite', path: PATH }, { connectionsMax: 1 })
    const orm = new MikroORM({
      ...options,
      entities: template.orm.config.get('entities'),
      // Opens a copy in memory: `dbName` takes the bytes of the template database.
      driverOptions: { dbName: from.serialize() },
    } as never) as Database['orm']
    await closeDatabase(template)
    const database: Database = { address: { dialect: 'sqlite', path: PATH }, readOnly: false, orm }
    const file = await fileOf(database)
    keepStatements(file)
    file.exec(LEASES)
    file.function('server_ms', { deterministic: false }, () => serverMs())
    return { database, file }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns the sender of a transaction in the journal. */
export function journalledSender({ file }: Tables, hash: string): Address | undefined {
  return file
    .prepare<[string], { sender: Address }>(
      'select sender from transaction_hashes where tx_hash = ?',
    )
    .get(hash)?.sender
}

/** Compiles each statement once, because the simulation repeats a few hundred of them. */
function keepStatements(file: DatabaseFile): void {
  const prepare = file.prepare.bind(file)
  const kept = new Map<string, ReturnType<typeof prepare>>()
  file.prepare = ((sql: string) => {
    let statement = kept.get(sql)
    if (statement === undefined) {
      statement = prepare(sql)
      if (kept.size < STATEMENTS_MAX) kept.set(sql, statement)
    }
    return statement
  }) as typeof file.prepare
}

const STATEMENTS_MAX = 2_000

async function fileOf(database: Database): Promise<DatabaseFile> {
  const connection: unknown = sqlConnection(database)
  return (connection as SqliteConnection).getNativeClient()
}

type WayPorts = {
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly life: Life
  readonly seed: number
  readonly tables: Tables
  /** True if several machines write to the database. Each write of the journal must then pass the fence of a lease. */
  readonly isShared: boolean
}

const away = () => new Fault('STORE_AWAY', 'the database does not answer', { retryable: true })

/** Makes the connection of one process to the database. */
export function wayToDatabase(ports: WayPorts) {
  const { scheduler, faults, life, tables } = ports
  const random: Random = randomFrom(Math.imul(ports.seed + 41, 0x297a2d39))

  function wait(): Promise<void> {
    const isSlow = faults.strikes('sql-slow')
    const us = isSlow ? faults.of('sql-slow').int(10_000, 4_000_000) : random.int(100, 4_000)
    return new Promise((resolve) => void scheduler.after(us, resolve, life))
  }

  /** Runs work on the server. The request and the answer each take some time on the way. */
  async function there<Result>(work: () => Promise<Result>): Promise<Result> {
    await wait()
    if (faults.strikes('sql-before')) throw away()
    const result = await work()
    const isLost = faults.strikes('sql-after')
    await wait()
    if (isLost) throw away()
    return result
  }

  const connection = sqlConnection(tables.database)
  const fence = makeFenceWatch()
  const transactional: typeof connection.transactional = (change, options) =>
    // A transaction within another is a savepoint.
    options?.ctx === undefined
      ? there(async () => {
          fence.begin()
          const result = await connection.transactional(change, options)
          if (ports.isShared && fence.isPassedBy()) {
            scheduler.fail(new Violation('fenced', 'the journal was written without a lease'))
          }
          return result
        })
      : connection.transactional(change, options)
  const own = new Proxy(connection, {
    get(target, key) {
      if (key === 'transactional') return transactional
      if (key === 'execute') return fence.watch(executeLeases(target))
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const em = { getConnection: () => own, fork: () => tables.database.orm.em.fork() }
  const orm = { em, close: async () => {} } as unknown as Database['orm']
  const database: Database = { ...tables.database, orm }

  const run = (task: QueryTask) =>
    there(() => answerQuery(async () => tables.database, task)).catch(faultReply)
  const reads: Reads = {
    run,
    query: (name, args) => askQuery({ run }, name, args),
    together: (work) => work(),
    openNeeds: (options, take) => there(() => openNeeds(tables.database, options, take)),
    close: async () => {},
  }
  return { database, reads }
}

/**
 * Detects a transaction that writes the journal without passing the fence of its lease. The watched transactions run
 * one at a time.
 */
function makeFenceWatch() {
  let [isWritten, isFenced] = [false, false]
  return {
    begin(): void {
      isWritten = false
      isFenced = false
    },
    isPassedBy: () => isWritten && !isFenced,
    watch(execute: Execute): Execute {
      return (async (sql: string, ...more: unknown[]) => {
        const result = await (execute as (...all: unknown[]) => Promise<unknown>)(sql, ...more)
        if (/^(insert into|update) transactions\b/.test(String(sql))) isWritten = true
        if (String(sql).startsWith('update leases set writes')) isFenced = true
        return result
      }) as Execute
    },
  }
}

type Execute = ReturnType<typeof sqlConnection>['execute']

/** Runs the lease statements, which are written for a database server, on SQLite. */
function executeLeases(connection: ReturnType<typeof sqlConnection>): Execute {
  return (async (sql: string, values: unknown[] = [], method, transaction) => {
    if (!/\bleases\b/.test(String(sql))) {
      return connection.execute(sql, values, method, transaction)
    }
    const translated = sql
      .replace('utc_timestamp(3) + interval ? microsecond', 'server_ms() + ? / 1000.0')
      .replaceAll('utc_timestamp(3)', 'server_ms()')
      .replace('insert ignore', 'insert or ignore')
      .replace('last_insert_id(epoch + 1)', 'epoch + 1')
    const result = await connection.execute(translated, values, method, transaction)
    if (!sql.includes('last_insert_id')) return result
    const [, , role] = values
    const [row] = await connection.execute<{ epoch: number }[]>(
      'select epoch from leases where role = ?',
      [role],
      'all',
      transaction,
    )
    return { ...(result as object), insertId: row?.epoch }
  }) as Execute
}
