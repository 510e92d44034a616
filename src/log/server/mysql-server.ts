/**
 * A connection to one of the servers that hold the log. Every call goes over the one connection; when
 * it breaks, or a server refuses to work, the next call goes to the next server of the list. What the
 * errors of a server mean for a statement is `meaningOf`, the table of this room's README.
 */

import { readFileSync } from 'node:fs'
import type { Connection, ResultSetHeader, SslOptions } from 'mysql2/promise'
import { Fault } from '#domain/fault.ts'
import { type MysqlTls, readTlsOptions } from '#domain/mysql-tls.ts'

/** How long a server may take for one statement before it counts as gone. */
const STATEMENT_MS_MAX = 10_000
const CONNECT_MS_MAX = 5_000
/** Statements before which a Galera server applies all that was committed: reads, updates, deletes and inserts. */
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
/** The message where an address cannot be read. */
export const LOG_URL_SHAPE =
  'the log is at mysql://user:password@host:port/database, followed by ?tls=true or ?tls=true&ca=/path/ca.pem ' +
  'to encrypt the connection to a host name'

/**
 * Reads `mysql://user:password@host:port,host:port/database?tls=true&ca=/path/ca.pem`, where all after the database may
 * be left out. Returns undefined if it is not such an address.
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

/** The address for people to read: without the password. */
export function describeMysqlAddress(url: string): string {
  const address = parseMysqlAddress(url)
  if (address === undefined) return 'an address that cannot be read'
  const servers = address.servers.map(({ host, port }) => `${host}:${port}`)
  return `mysql://${address.user}@${servers.join(',')}/${address.database}`
}

/**
 * What an error says of the statement that met it.
 *   again: it was rolled back, and the same may be sent again
 *   taken: a row of that key is there; whose it is must be read
 *   elsewhere: this server did nothing and will do nothing; another may
 *   unknown: it may have happened, or may still
 *   refused: it did not happen, and sending it again does not help
 */
type Meaning = 'again' | 'taken' | 'elsewhere' | 'unknown' | 'refused'

const MEANINGS: ReadonlyMap<number, Meaning> = new Map<number, Meaning>([
  [1062, 'taken'], // duplicate key
  [1213, 'again'], // deadlock, or a lost certification: rolled back
  [1205, 'again'], // lock wait: the statement was rolled back
  [1020, 'again'], // the record has changed since it was read
  [1047, 'elsewhere'], // a node that is not in the primary component
  [1290, 'elsewhere'], // read-only
  [1836, 'elsewhere'], // read-only
  [1040, 'elsewhere'], // too many connections
  [1203, 'elsewhere'], // too many connections of this user
  [1129, 'elsewhere'], // the host is blocked
  [1044, 'refused'], // no right to the database
  [1045, 'refused'], // wrong user or password
  [1049, 'refused'], // no such database
  [1054, 'refused'], // no such column
  [1064, 'refused'], // it does not speak this SQL
  [1142, 'refused'], // no right to the table
  [1146, 'refused'], // no such table
  [1153, 'refused'], // larger than max_allowed_packet
  [1227, 'refused'], // no right to do that
  [1406, 'refused'], // too long for its column
])

export function meaningOf(error: unknown): Meaning {
  const { errno } = error as { errno?: unknown }
  return (typeof errno === 'number' ? MEANINGS.get(errno) : undefined) ?? 'unknown'
}

export class MysqlServer {
  readonly #address: MysqlAddress
  #connection: Promise<Connection> | undefined
  #at = 0
  #closed = false

  constructor(address: MysqlAddress) {
    this.#address = address
  }

  /** Where the connection is, or would be made. */
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

  /** How many rows it changed. */
  async change(sql: string, values: readonly unknown[] = []): Promise<number> {
    return ((await this.#execute(sql, values)) as ResultSetHeader).affectedRows
  }

  /** The next call goes to the next server. */
  moveOn(): void {
    this.#drop()
    this.#at = (this.#at + 1) % this.#address.servers.length
  }

  async close(): Promise<void> {
    this.#closed = true
    const connection = this.#connection
    this.#connection = undefined
    // One that never came to be needs no end.
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
      // A connection whose statement has no answer would give that answer to the next.
      if (meaningOf(error) === 'unknown' && this.#connection === asked) this.#drop()
      throw error
    }
  }

  async #connect(): Promise<Connection> {
    const { servers, user, password, database } = this.#address
    const { host, port } = servers[this.#at]!
    // Only who has such a log loads it: it is a tenth of what an exchange with its log in files loads.
    const { createConnection } = await import('mysql2/promise')
    const connection = await createConnection({
      ...{ host, port, user, password, database },
      connectTimeout: CONNECT_MS_MAX,
      supportBigNumbers: true,
      charset: 'utf8mb4',
      ...sslOf(this.#address),
    })
    // What breaks while nothing is asked shows with the next statement.
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
 * Sets what the log relies on, whatever the server's defaults are, and reads it back. Without autocommit an append
 * would be acknowledged and then rolled back with its connection. On a Galera server, reads and the read within
 * `INSERT … SELECT` (4), `UPDATE` and `DELETE` (2) wait for all that was acknowledged anywhere before.
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
      `${server} keeps ${name} at ${actual?.[name]}, and the log needs ${value}: a proxy before it may set it`,
      { retryable: false },
    )
  }
}

/** The driver's TLS options: it verifies the certificate's chain by itself, and the host name where it is asked to. */
function sslOf({ tls, caFile }: MysqlTls): { readonly ssl?: SslOptions } {
  if (!tls) return {}
  return { ssl: { verifyIdentity: true, ...(caFile === undefined ? {} : { ca: readCa(caFile) }) } }
}

function readCa(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new Fault('LOG_URL_INVALID', `SIBYL_LOG_URL: ca names ${file}, which cannot be read`, {
      retryable: false,
      cause: error,
    })
  }
}
