/**
 * Opens and closes the database, and runs reads and transactions. Only the store thread opens the database for writing;
 * all other threads only read. Opening never waits for a MySQL server. While the server is unreachable, each call fails
 * with a retryable fault; after the server returns, the next call succeeds.
 */

import { mkdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { MikroORM, type Options, type Transaction } from '@mikro-orm/core'
import type {
  AbstractSqlConnection,
  AbstractSqlDriver,
  MySqlConnection,
  SqlEntityManager,
} from '@mikro-orm/mysql'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import { Fault } from '#domain/fault.ts'
import { type DatabaseAddress, parseDatabaseUrl, placesOf } from './database-url.ts'
import { type Lease, passFence } from './fence.ts'
import { type Logins, makeLogins } from './logins.ts'
import { makeServers, type Servers } from './servers.ts'
import {
  closedFault,
  isConnectionLost,
  isConstraint,
  isLockWait,
  isServerIdle,
  loginRefusal,
  storeFault,
} from './store-fault.ts'
import { type Copier, keepWriteAhead, type WriteAhead } from './write-ahead.ts'

export type Database = {
  readonly address: DatabaseAddress
  readonly readOnly: boolean
  readonly orm: MikroORM<AbstractSqlDriver>
  /** Defined if the address names several servers. */
  readonly servers?: Servers | undefined
  /** MySQL only. */
  readonly logins?: Logins
  /** Defined only if SQLite is open for writing. */
  readonly writeAhead?: WriteAhead | undefined
  /** The transaction that is open, if any; a transaction inside it is a savepoint. */
  readonly within?: Transaction
  /** Lease that every transaction checks. Once the lease is lost, no transaction is committed. */
  readonly fence?: Lease
}

type Entities = NonNullable<Options<AbstractSqlDriver>['entities']>

export type DatabaseOptions = {
  /** SQLite opens the file for reading only; MySQL refuses writes in the session. */
  readonly readOnly?: boolean
  /** Maximum number of connections to a MySQL server; SQLite always has one connection. */
  readonly connectionsMax?: number
  /**
   * Maximum time without a byte from the server while an answer is due. After this time, if there are several
   * servers, connections go to the next server. Use `Infinity` for an operator's command, because its
   * statements may be slow.
   */
  readonly silentMsMax?: number
  /** Opens a thread that copies SQLite's write-ahead file into the database; for threads that write a lot. */
  readonly copier?: (path: string) => Copier
  /** Clock for the pauses after refused logins. */
  readonly nowMs?: () => number
}

/**
 * Maximum wait of a SQLite writer for another writer, and of a MySQL statement for a lock. Also the maximum time of a
 * connection attempt to a MySQL server.
 */
const PATIENCE_MS = 5_000

const SILENT_MS_MAX = 10_000

/** Maximum number of calls that wait for a connection; further calls fail as unavailable. */
const WAITING_MAX = 4_096

/** Maximum number of attempts of a read if its connection or its server fails each time. */
const READ_ATTEMPTS_MAX = 3

/**
 * Settings of each session, which override the server's defaults.
 * - Strict mode: a value that does not fit its column is refused, not cut. Backslashes in strings are escapes.
 * - A single statement commits at once.
 * - A lock wait ends after `PATIENCE_MS`. Otherwise a statement whose connection was cut would keep waiting, and would
 *   block the statement that replaces it.
 * - If a process pauses or its machine is lost within a write transaction, MariaDB ends the transaction after
 *   `PATIENCE_MS`. The process's lease expires later than that. To MySQL, this setting is a comment.
 */
const MYSQL_SESSION =
  "set session sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', " +
  `autocommit = 1, innodb_lock_wait_timeout = ${PATIENCE_MS / 1_000} ` +
  `/*M!100300 , idle_write_transaction_timeout = ${PATIENCE_MS / 1_000} */`

/**
 * In a Galera cluster, each server applies commits of the other servers a little later. With this setting, a statement
 * first waits until its server has applied all earlier commits. The value is the sum of 1 (reads), 2 (updates and
 * deletes) and 4 (inserts). The check of a fence is an update, so it waits too. The setting is used for every address,
 * because one address may lead to any server of a cluster. A MariaDB server without a cluster ignores the setting.
 */
const SYNC_WAIT = 'set session wsrep_sync_wait = 7'

/** Statement that fails if the server is not part of its cluster. */
const PROBE = 'select 1'

/**
 * Error code of `SYNC_WAIT` on plain MySQL, which has no such variable. It is ignored, because the server is not a
 * Galera server.
 */
const UNKNOWN_VARIABLE = 1193

/** Opens a database with these ORM entities. */
export async function openEntities(
  url: string,
  entities: Entities,
  options: DatabaseOptions = {},
): Promise<Database> {
  const address = parseDatabaseUrl(url)
  const readOnly = options.readOnly ?? false
  const connectionsMax = options.connectionsMax ?? (readOnly ? 2 : 4)
  let orm: MikroORM<AbstractSqlDriver> | undefined
  try {
    // Create the ORM by its constructor below, because `MikroORM.init` would look for ORM extensions, and load the
    // migrations extension each time.
    const servers = serversOf(address, options.silentMsMax ?? SILENT_MS_MAX)
    const logins = makeLogins(options.nowMs)
    const given = await ormOptions(address, { readOnly, connectionsMax, servers, logins })
    orm = new MikroORM({ ...given, entities })
    const database = { address, readOnly, orm, servers, logins }
    const writeAhead = await prepareConnections(database, options.copier)
    return { ...database, writeAhead }
  } catch (error) {
    await orm?.close(true)
    throw storeFault(error)
  }
}

/**
 * Closes the database permanently. Later queries must fail. Otherwise the ORM would open a new connection, and nothing
 * would close this connection.
 */
export async function closeDatabase({ orm, writeAhead }: Database): Promise<void> {
  orm.em.getConnection().connect = () => Promise.reject(closedFault())
  await writeAhead?.close()
  await orm.close(true)
}

/**
 * Runs a read, at most `READ_ATTEMPTS_MAX` times. Repeats the read if its connection was lost. If there are several
 * servers, also repeats the read if the server has left its cluster or does not keep up with the cluster. The repeated
 * read uses another server.
 */
export async function read<T>(
  database: Database,
  ask: (em: SqlEntityManager) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask(database.orm.em.fork())
    } catch (error) {
      noteFailure(database, error)
      const isElsewhere =
        database.servers !== undefined && (isServerIdle(error) || isLockWait(error))
      if (attempt < READ_ATTEMPTS_MAX && (isElsewhere || isConnectionLost(error))) continue
      throw storeFault(error)
    }
  }
}

/** Transactions that check a lease before they commit. Savepoints inside them do not check the lease again. */
const fenced = new WeakSet<Transaction>()

/** Runs a transaction once. After a fault it is unknown whether it was committed. */
export async function transact<T>(
  database: Database,
  change: (transaction: Transaction, connection: AbstractSqlConnection) => Promise<T>,
): Promise<T> {
  const connection = sqlConnection(database)
  const { within } = database
  const fence = within !== undefined && fenced.has(within) ? undefined : database.fence
  try {
    const result = await connection.transactional(
      async (transaction) => {
        // If a copy of the write-ahead file into the database must be finished, finish it now, before this transaction
        // reads or writes anything.
        if (within === undefined) await database.writeAhead?.begun()
        if (fence === undefined) return change(transaction, connection)
        fenced.add(transaction)
        let changed: T
        try {
          changed = await change(transaction, connection)
        } catch (error) {
          // Another node may have taken the lease and written the conflicting row. In that case, report that the lease
          // is lost instead of the conflict.
          if (isConstraint(error)) await passFence(fence, connection, transaction)
          throw error
        }
        await passFence(fence, connection, transaction)
        return changed
      },
      within === undefined ? {} : { ctx: within },
    )
    if (within === undefined) await database.writeAhead?.wrote()
    return result
  } catch (error) {
    noteFailure(database, error)
    throw storeFault(error)
  }
}

/**
 * Records a refused login. Abandons a server that is reachable but is not part of its cluster, or too far behind the
 * cluster.
 */
function noteFailure({ servers, logins }: Database, error: unknown): void {
  if (isServerIdle(error)) servers?.leave('the database server is not part of its cluster')
  if (isLockWait(error))
    servers?.leave(
      'a statement exceeded its lock timeout: the database server may be too far behind its cluster',
    )
  const refusal = loginRefusal(error)
  if (refusal !== undefined) logins?.refused(refusal)
}

/** Returns the servers of an address; undefined if the address names one server. */
function serversOf(address: DatabaseAddress, silentMsMax: number): Servers | undefined {
  if (address.dialect === 'sqlite' || address.others === undefined) return undefined
  return makeServers(placesOf(address), silentMsMax)
}

export function sqlConnection(database: Database): AbstractSqlConnection {
  return database.orm.em.getConnection()
}

/** Returns the ORM's options for this address. The ORM's log is off, because it would contain statements. */
export async function ormOptions(
  address: DatabaseAddress,
  {
    readOnly = false,
    connectionsMax,
    servers,
    logins = makeLogins(),
  }: {
    readOnly?: boolean
    connectionsMax: number
    servers?: Servers | undefined
    logins?: Logins
  },
): Promise<Partial<Options<AbstractSqlDriver>>> {
  const common: Partial<Options<AbstractSqlDriver>> = {
    ensureDatabase: false,
    debug: false,
    logger: () => {},
    preferTs: true,
  }
  if (address.dialect === 'sqlite') {
    const { SqliteDriver } = await import('@mikro-orm/sqlite')
    if (!readOnly) mkdirSync(dirname(address.path), { recursive: true })
    return {
      ...common,
      driver: SqliteDriver,
      dbName: address.path,
      driverOptions: { timeout: PATIENCE_MS, readonly: readOnly, fileMustExist: readOnly },
    }
  }
  const { MySqlDriver } = await import('@mikro-orm/mysql')
  return {
    ...common,
    driver: MySqlDriver,
    host: address.host,
    port: address.port,
    user: address.user,
    password: address.password,
    dbName: address.name,
    pool: { min: 0, max: connectionsMax },
    driverOptions: {
      connectTimeout: PATIENCE_MS,
      queueLimit: WAITING_MAX,
      stream: dialer(address, servers, logins),
      ...(address.tls ? { ssl: sslOf(address.caFile) } : {}),
    },
  }
}

/**
 * Dials the current server, and makes the driver check the certificate against that server's name. By default, the
 * driver would check against the first name of the address.
 */
function dialer(
  { host, port }: { readonly host: string; readonly port: number },
  servers: Servers | undefined,
  logins: Logins,
): (options: { readonly config: { host: string } }) => Socket {
  if (servers === undefined) {
    return () => logins.dial(() => connect(port, host).setNoDelay(true).setKeepAlive(true))
  }
  return ({ config }) => {
    config.host = servers.place.host
    return logins.dial(() => servers.dial(config))
  }
}

/**
 * Returns the driver's TLS options. The driver verifies the certificate's chain by itself, but the host name only on
 * request.
 */
function sslOf(caFile: string | undefined): { verifyIdentity: true; ca?: Buffer } {
  if (caFile === undefined) return { verifyIdentity: true }
  try {
    return { verifyIdentity: true, ca: readFileSync(caFile) }
  } catch (error) {
    throw new Fault(
      'STORE_URL_INVALID',
      `the database address is wrong: the file ${caFile} of the parameter ca cannot be read`,
      { retryable: false, cause: error },
    )
  }
}

async function prepareConnections(
  database: Database,
  copier: DatabaseOptions['copier'],
): Promise<WriteAhead | undefined> {
  const connection: unknown = sqlConnection(database)
  if (database.address.dialect === 'sqlite') {
    const file = await (connection as SqliteConnection).getNativeClient()
    if (database.readOnly) return undefined
    file.pragma('journal_mode = WAL')
    file.pragma('cache_size = -65536')
    // Sync each commit before it is acknowledged, because some data of other actors, such as API keys, is not in the
    // event log.
    return keepWriteAhead(file, copier?.(database.address.path))
  }
  const pool = await (connection as MySqlConnection).getNativeClient()
  const statements = [
    MYSQL_SESSION,
    SYNC_WAIT,
    PROBE,
    ...(database.readOnly ? ['set session transaction read only'] : []),
  ]
  pool.on('connection', (fresh) => {
    database.logins?.accepted()
    // `_command` is the driver's current command; the driver has no public name for it.
    const { config } = fresh as unknown as { config: object }
    database.servers?.loggedIn(config, () => '_command' in fresh && Boolean(fresh._command))
    // These statements run first on each connection; if one fails, the connection must not be used.
    for (const statement of statements) {
      fresh.query(statement, (error: unknown) => {
        if (error === null) return
        const { errno } = error as { errno?: unknown }
        if (statement === SYNC_WAIT && errno === UNKNOWN_VARIABLE) return
        noteFailure(database, error)
        fresh.destroy()
      })
    }
  })
  return undefined
}
