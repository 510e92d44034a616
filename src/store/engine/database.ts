/**
 * Opens and closes the database, and carries reads and transactions to it. Only the store thread
 * opens it for writing; all others read. Opening never waits for a MySQL server: while it is
 * away each call is a retryable fault, and once it is back the next call finds it.
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
  isServerIdle,
  loginRefusal,
  storeFault,
} from './store-fault.ts'
import { type Copier, keepWriteAhead, type WriteAhead } from './write-ahead.ts'

export type Database = {
  readonly address: DatabaseAddress
  readonly readOnly: boolean
  readonly orm: MikroORM<AbstractSqlDriver>
  /** Where the address names several servers. */
  readonly servers?: Servers | undefined
  /** Of a MySQL server. */
  readonly logins?: Logins
  /** Of SQLite, opened for writing. */
  readonly writeAhead?: WriteAhead | undefined
  /** A transaction that is open already: those inside are parts of it, each undone by itself. */
  readonly within?: Transaction
  /** The lease that every transaction is written under: once it is lost, nothing is committed. */
  readonly fence?: Lease
}

type Entities = NonNullable<Options<AbstractSqlDriver>['entities']>

export type DatabaseOptions = {
  /** SQLite opens the file for reading only; MySQL refuses writes in the session. */
  readonly readOnly?: boolean
  /** Connections to a MySQL server at most; SQLite always has one. */
  readonly connectionsMax?: number
  /** For work of an operator, whose statements may take long: of several servers none is left because it is slow. */
  readonly patient?: boolean
  /** For who writes much to SQLite: a thread that copies its write-ahead file back. */
  readonly copier?: (path: string) => Copier
  /** The clock of pauses between refused logins. */
  readonly nowMs?: () => number
}

/** How long a writer of SQLite waits for another one, and a connection to MySQL for its server. */
const PATIENCE_MS = 5_000

/** Of several servers, one that takes longer for a statement is left for the next. */
const SILENT_MS_MAX = 10_000

/** Calls that may wait for a connection; more are told that the database is not available. */
const WAITING_MAX = 4_096

/** How often a read is tried when its connection turns out to be dead. */
const READ_ATTEMPTS_MAX = 3

/**
 * The session must refuse what does not fit a column rather than cut it, and must read backslashes
 * in strings as escapes, whatever the server's own defaults are. A single statement commits by itself. A statement waits for a lock as long
 * as anything else here: one whose connection was cut would go on waiting, and hold up its successor. So
 * would a process that is paused, or a machine that is gone, within a transaction: MariaDB ends it by itself
 * before the lease of the process has run out. MySQL reads that part as a comment.
 */
const MYSQL_SESSION =
  "set session sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', " +
  `autocommit = 1, innodb_lock_wait_timeout = ${PATIENCE_MS / 1_000} ` +
  `/*M!100300 , idle_write_transaction_timeout = ${PATIENCE_MS / 1_000} */`

/**
 * Each server of a cluster applies commits of the others a little later. With 7, reads (1) and the reads within updates,
 * deletes (2) and inserts (4), such as that of a fence, wait for all that was committed anywhere before. The last
 * statement finds out whether the server is part of the cluster.
 */
const CLUSTER_SESSION = ['set session wsrep_sync_wait = 7', 'select 1']

/** Opens a database whose tables the ORM knows by these entities. */
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
    // Not by `init`, which looks for extensions of the ORM and loads those for migrations every time.
    const silentMsMax = options.patient === true ? Number.POSITIVE_INFINITY : SILENT_MS_MAX
    const servers = serversOf(address, silentMsMax)
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

/** Closes for good: a query that comes later fails, where the ORM would connect anew and nobody would close that. */
export async function closeDatabase({ orm, writeAhead }: Database): Promise<void> {
  orm.em.getConnection().connect = () => Promise.reject(closedFault())
  await writeAhead?.close()
  await orm.close(true)
}

/** Runs a read. It may run more than once, when the connection that it first got was dead. */
export async function read<T>(
  database: Database,
  ask: (em: SqlEntityManager) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask(database.orm.em.fork())
    } catch (error) {
      noteFailure(database, error)
      const isElsewhere = database.servers !== undefined && isServerIdle(error)
      if (attempt < READ_ATTEMPTS_MAX && (isElsewhere || isConnectionLost(error))) continue
      throw storeFault(error)
    }
  }
}

/** Transactions that are to pass a fence at their end, and so are all parts of them. */
const fenced = new WeakSet<Transaction>()

/** Runs a transaction. It never runs twice: after a fault it is not known whether it was committed. */
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
        // Nothing was read or written yet, so this transaction stands in nobody's way.
        if (within === undefined) await database.writeAhead?.begun()
        if (fence === undefined) return change(transaction, connection)
        fenced.add(transaction)
        let changed: T
        try {
          changed = await change(transaction, connection)
        } catch (error) {
          // A row that is in the way may be of the node that has taken the lease: then that is what is wrong.
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

/** Of several servers one may be there and not be part of the cluster; and any may refuse the login. */
function noteFailure({ servers, logins }: Database, error: unknown): void {
  if (isServerIdle(error)) servers?.leave('the server is not part of the cluster')
  const refusal = loginRefusal(error)
  if (refusal !== undefined) logins?.refused(refusal)
}

/** Undefined where the address names one. */
function serversOf(address: DatabaseAddress, silentMsMax: number): Servers | undefined {
  if (address.dialect === 'sqlite' || address.others === undefined) return undefined
  return makeServers(placesOf(address), silentMsMax)
}

export function sqlConnection(database: Database): AbstractSqlConnection {
  return database.orm.em.getConnection()
}

/** The options of the ORM for this address; it is silent, since its log would show statements. */
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
 * Dials the current server, and has the driver check the certificate against its name: else it would compare
 * each server's certificate with the first name of the address.
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
    return logins.dial(() => servers.dial())
  }
}

/** The driver verifies the certificate's chain by itself, and the host name where it is asked to. */
function sslOf(caFile: string | undefined): { verifyIdentity: true; ca?: Buffer } {
  if (caFile === undefined) return { verifyIdentity: true }
  try {
    return { verifyIdentity: true, ca: readFileSync(caFile) }
  } catch (error) {
    throw new Fault(
      'STORE_URL_INVALID',
      `the database address is wrong: ca names ${caFile}, which cannot be read`,
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
    // A commit is on the disk before it is answered, since other actors keep their only copy here.
    return keepWriteAhead(file, copier?.(database.address.path))
  }
  const pool = await (connection as MySqlConnection).getNativeClient()
  const statements = [
    MYSQL_SESSION,
    ...(database.servers === undefined ? [] : CLUSTER_SESSION),
    ...(database.readOnly ? ['set session transaction read only'] : []),
  ]
  pool.on('connection', (fresh) => {
    database.logins?.accepted()
    // The driver runs these before anything else on the connection; if one fails, it must not serve.
    for (const statement of statements) {
      fresh.query(statement, (error: unknown) => {
        if (error === null) return
        noteFailure(database, error)
        fresh.destroy()
      })
    }
  })
  return undefined
}
