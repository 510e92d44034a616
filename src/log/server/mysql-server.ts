/**
 * A connection to one of the log's servers. All calls use one connection. If the connection breaks, or the server
 * accepts no statements, the next call goes to the next server of the list. `meaningOf` classifies a server's error by
 * its effect on the statement.
 */

import { readFileSync } from 'node:fs'
import type { Connection, ResultSetHeader, SslOptions } from 'mysql2/promise'
import { Fault } from '#domain/fault.ts'
import { type MysqlTls, readTlsOptions } from '#domain/mysql-tls.ts'

/** Maximum time for one statement; a server that takes longer counts as failed. */
const STATEMENT_MS_MAX = 10_000
const CONNECT_MS_MAX = 5_000
/**
 * Value of the setting `wsrep_sync_wait` of Galera servers. With this value, a server applies all earlier commits of
 * the cluster before it executes a read, update, delete or insert.
 */
const SYNC_WAIT = 7

export type MysqlAddress = MysqlTls & {
  readonly servers: readonly { readonly host: string; readonly port: number }[]
  readonly user: string
  readonly password: string
  readonly database: string
}

const SHAPE = /^mysql:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?#]+)\/([A-Za-z0-9_$-]+)(\?[^#]*)?$/
const SERVER = /^([A-Za-z0-9_.-]+|\[[0-9a-fA-F:]+\])(?::(\d{1,5}))?$/
const PORT = 3_306
/** Message for an invalid address. */
export const LOG_URL_SHAPE =
  'SIBYL_LOG_URL: must be mysql://user:password@host:port/database, followed by ?tls=true or ' +
  '?tls=true&ca=/path/ca.pem to encrypt the connection to a host name'

/**
 * Parses `mysql://user:password@host:port,host:port/database?tls=true&ca=/path/ca.pem`; everything after the database
 * is optional. Returns undefined if invalid.
 */
export function parseMysqlAddress(url: string): MysqlAddress | undefined {
  const [, user = '', password = '', hosts = '', database = '', search = ''] = SHAPE.exec(url) ?? []
  const servers = hosts.split(',').map((each) => {
    const [, host, port] = SERVER.exec(each) ?? []
    return { host: host?.replace(/^\[|\]$/g, '') ?? '', port: Number(port ?? PORT) }
  })
  if (database === '' || servers.some(({ host, port }) => host === '' || port > 65_535)) {
    return undefined
  }
  const names = servers.map(({ host }) => host)
  const tls = readTlsOptions(new URLSearchParams(search), names)
  if (typeof tls === 'string') return undefined
  const [name, secret] = [user, password].map(decodeURIComponent) as [string, string]
  return { servers, user: name, password: secret, database, ...tls }
}

/** Returns the address without its password. */
export function describeMysqlAddress(url: string): string {
  const address = parseMysqlAddress(url)
  if (address === undefined) return 'an address that cannot be read'
  const servers = address.servers.map(({ host, port }) => `${host}:${port}`)
  return `mysql://${address.user}@${servers.join(',')}/${address.database}`
}

/**
 * Meaning of an error for its statement.
 *   again: the statement was rolled back; send it again
 *   taken: a row with that key exists; read the row to find its owner
 *   elsewhere: this server did nothing; send the statement to another server
 *   unknown: the statement may have been executed, or may still be executed
 *   refused: the statement was not executed, and a retry does not help
 */
type Meaning = 'again' | 'taken' | 'elsewhere' | 'unknown' | 'refused'

const LOCK_WAIT = 1205

const MEANINGS: ReadonlyMap<number, Meaning> = new Map<number, Meaning>([
  [1062, 'taken'], // duplicate key
  [1213, 'again'], // deadlock, or a lost certification: rolled back
  [LOCK_WAIT, 'again'], // the statement was rolled back
  [1020, 'again'], // the record has changed since it was read
  [1047, 'elsewhere'], // a node that is not in the primary component
  [1290, 'elsewhere'], // read-only
  [1836, 'elsewhere'], // read-only
  [1040, 'elsewhere'], // too many connections
  [1203, 'elsewhere'], // too many connections of this user
  [1129, 'elsewhere'], // the host is blocked
  [1044, 'refused'], // no privilege for the database
  [1045, 'refused'], // wrong user or password
  [1049, 'refused'], // no such database
  [1054, 'refused'], // no such column
  [1064, 'refused'], // the server cannot parse the SQL
  [1142, 'refused'], // no privilege for the table
  [1146, 'refused'], // no such table
  [1153, 'refused'], // larger than max_allowed_packet
  [1227, 'refused'], // no privilege for this operation
  [1406, 'refused'], // a value is too long for its column
])

export function meaningOf(error: unknown): Meaning {
  const { errno } = error as { errno?: unknown }
  return (typeof errno === 'number' ? MEANINGS.get(errno) : undefined) ?? 'unknown'
}

/**
 * Returns whether a statement waited too long for a lock. A Galera server also reports this error if it cannot catch up
 * with its cluster. Existing sessions of that server may keep reporting the error, so the next call needs another
 * connection.
 */
function isLockWait(error: unknown): boolean {
  return (error as { errno?: unknown }).errno === LOCK_WAIT
}

export class MysqlServer {
  readonly #address: MysqlAddress
  #connection: Promise<Connection> | undefined
  #at = 0
  #closed = false

  constructor(address: MysqlAddress) {
    this.#address = address
  }

  /** Name of the server that the current connection uses, or that the next one will use. */
  get name(): string {
    const { host, port } = this.#address.servers[this.#at]!
    return `${host}:${port}`
  }

  async rows<Row>(
    sql: string,
    values: readonly unknown[] = [],
    timeoutMs = STATEMENT_MS_MAX,
  ): Promise<Row[]> {
    return (await this.#execute(sql, values, timeoutMs)) as Row[]
  }

  /** Runs a statement; returns the number of rows that it changed. */
  async change(sql: string, values: readonly unknown[] = []): Promise<number> {
    return ((await this.#execute(sql, values)) as ResultSetHeader).affectedRows
  }

  /** Makes the next call use the next server of the list. */
  moveOn(): void {
    this.#drop()
    this.#at = (this.#at + 1) % this.#address.servers.length
  }

  async close(): Promise<void> {
    this.#closed = true
    const connection = this.#connection
    this.#connection = undefined
    // If connecting failed, there is nothing to close.
    await connection?.then((made) => made.end()).catch(() => undefined)
  }

  async #execute(
    sql: string,
    values: readonly unknown[],
    timeout = STATEMENT_MS_MAX,
  ): Promise<unknown> {
    if (this.#closed) throw new Fault('LOG_CLOSED', 'the log is closed', { retryable: false })
    this.#connection ??= this.#connect()
    const asked = this.#connection
    try {
      const connection = await asked
      const [result] = await connection.execute({ sql, timeout }, [...values] as never[])
      return result
    } catch (error) {
      if (this.#connection !== asked) throw error
      // If the outcome of the statement is unknown, drop the connection: a late answer would be taken for the answer to
      // the next statement.
      if (meaningOf(error) === 'unknown') this.#drop()
      else if (isLockWait(error)) this.moveOn()
      throw error
    }
  }

  async #connect(): Promise<Connection> {
    const { servers, user, password, database } = this.#address
    const { host, port } = servers[this.#at]!
    // Load the driver only here, because an exchange whose log is in files does not need it. The driver would be a
    // tenth of the loaded code.
    const { createConnection } = await import('mysql2/promise')
    const connection = await createConnection({
      ...{ host, port, user, password, database },
      connectTimeout: CONNECT_MS_MAX,
      supportBigNumbers: true,
      charset: 'utf8mb4',
      ...sslOf(this.#address),
    })
    // Ignore this event: the error of an idle connection is reported with its next statement.
    connection.on('error', () => undefined)
    try {
      await prepareSession(connection, this.name)
    } catch (error) {
      connection.destroy()
      throw error
    }
    return connection
  }

  #drop(): void {
    const connection = this.#connection
    this.#connection = undefined
    void connection?.then((made) => made.destroy()).catch(() => undefined)
  }
}

/**
 * Sets the session variables that the log relies on, and reads them back. Without autocommit, an append would be
 * acknowledged, and rolled back when its connection ends. On a Galera server, each read, update, delete and insert
 * first waits until this server has applied all earlier commits of the cluster.
 */
async function prepareSession(connection: Connection, server: string): Promise<void> {
  await connection.query('SET SESSION autocommit = 1')
  const [found] = await connection.query("SHOW VARIABLES LIKE 'wsrep_on'")
  const isCluster = (found as { Value: string }[])[0]?.Value === 'ON'
  if (isCluster) await connection.query(`SET SESSION wsrep_sync_wait = ${SYNC_WAIT}`)
  const wanted = { autocommit: 1, ...(isCluster ? { wsrep_sync_wait: SYNC_WAIT } : {}) }
  const columns = Object.keys(wanted).map((name) => `@@SESSION.${name} AS ${name}`)
  const [rows] = await connection.query(`SELECT ${columns.join(', ')}`)
  const [actual] = rows as Record<string, number>[]
  for (const [name, value] of Object.entries(wanted)) {
    if (Number(actual?.[name]) === value) continue
    throw new Fault(
      'LOG_SERVER_UNFIT',
      `the session variable ${name} of ${server} is ${actual?.[name]}, but the log needs ` +
        `${value}: check whether a proxy overrides the variable`,
      { retryable: false },
    )
  }
}

/**
 * Returns the driver's TLS options. The driver verifies the certificate's chain by default, but verifies the
 * host name only with `verifyIdentity`.
 */
function sslOf({ tls, caFile }: MysqlTls): { readonly ssl?: SslOptions } {
  if (!tls) return {}
  return { ssl: { verifyIdentity: true, ...(caFile === undefined ? {} : { ca: readCa(caFile) }) } }
}

function readCa(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new Fault(
      'LOG_URL_INVALID',
      `SIBYL_LOG_URL: the file ${file} of the parameter ca cannot be read`,
      {
        retryable: false,
        cause: error,
      },
    )
  }
}
