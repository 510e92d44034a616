/**
 * Turns what the drivers throw into faults. Nothing else of a driver's error leaves the store than
 * its code and its sentence, and neither ever holds the password of an address.
 */

import { AssertionError } from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'

/** The connection, not the statement, was at fault: on another connection it may well succeed. */
const CONNECTION_LOST = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_ENQUEUE_AFTER_FATAL_ERROR',
  'PROTOCOL_ENQUEUE_AFTER_QUIT',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ER_CONNECTION_KILLED',
  'ER_SERVER_SHUTDOWN',
  'ER_CLIENT_INTERACTION_TIMEOUT',
])

/** The database is there but could not do it now. */
const BUSY = new Set([
  'ER_CON_COUNT_ERROR',
  'ER_TOO_MANY_USER_CONNECTIONS',
  'ER_LOCK_DEADLOCK',
  'ER_LOCK_WAIT_TIMEOUT',
  'ER_QUERY_INTERRUPTED',
  'ER_DISK_FULL',
  'ER_RECORD_FILE_FULL',
  'ER_OPTION_PREVENTS_STATEMENT',
  // A server of a cluster that did not become part of it again, or fell out of it.
  'ER_UNKNOWN_COM_ERROR',
  // Of a cluster whose majority was lost meanwhile; like any transaction that failed it may have been committed.
  'ER_ERROR_DURING_COMMIT',
])

const CONSTRAINT = new Set([
  'ER_DUP_ENTRY',
  'ER_BAD_NULL_ERROR',
  'ER_NO_DEFAULT_FOR_FIELD',
  'ER_DATA_TOO_LONG',
  'ER_WARN_DATA_OUT_OF_RANGE',
  'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD',
  'ER_CONSTRAINT_FAILED',
  'ER_CHECK_CONSTRAINT_VIOLATED',
  'ER_DATA_OUT_OF_RANGE',
  'ER_NET_PACKET_TOO_LARGE',
  'ER_TRUNCATED_WRONG_VALUE',
  'SQLITE_MISMATCH',
  'SQLITE_RANGE',
  'SQLITE_TOOBIG',
])

/** Refuses a statement. The others refuse a login. */
const TABLE_REFUSED = 'ER_TABLEACCESS_DENIED_ERROR'

const REFUSED = new Map([
  ['ER_ACCESS_DENIED_ERROR', 'the database refused the login'],
  ['ER_ACCESS_DENIED_NO_PASSWORD_ERROR', 'the database refused the login'],
  ['ER_DBACCESS_DENIED_ERROR', 'the database user has no rights to the database: GRANT them'],
  ['ER_BAD_DB_ERROR', 'the server has no such database: CREATE DATABASE it'],
  [TABLE_REFUSED, 'the database user lacks rights to a table: GRANT them'],
])

/** MariaDB's own numbers, which the driver has no name for or names as MySQL's namesakes. */
const CONNECTION_LOST_NUMBERS = new Set([1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031])

/** For a query that comes after its database was closed. */
export function closedFault(): Fault {
  return new Fault('STORE_UNAVAILABLE', 'the database is closed', { retryable: true })
}

/** Whether the database refused a row as it is. */
export function isConstraint(error: unknown): boolean {
  const { code } = described(error)
  return CONSTRAINT.has(code) || code.startsWith('SQLITE_CONSTRAINT')
}

export function storeFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  // A broken assertion is a bug of ours, not the database's.
  if (error instanceof AssertionError) throw error
  const { code, errno, message } = described(error)
  if (
    isConnectionLost(error) ||
    BUSY.has(code) ||
    /^SQLITE_(BUSY|LOCKED|IOERR|FULL|CANTOPEN)/.test(code)
  ) {
    return fault('STORE_UNAVAILABLE', 'the database is not available', true)
  }
  if (
    /queue limit|pool is closed|no connections available|directory does not exist/i.test(message)
  ) {
    return fault('STORE_UNAVAILABLE', 'the database is not available', true)
  }
  if (isConstraint(error)) {
    return fault('STORE_CONSTRAINT', 'the database refused a row', false)
  }
  // Retryable: an operator may be rotating the password while the exchange runs.
  const refusal = REFUSED.get(code)
  if (refusal !== undefined) return fault('STORE_REFUSED', refusal, true)
  if (code === 'SQLITE_CORRUPT' || code === 'SQLITE_NOTADB') {
    return fault('STORE_CORRUPT', 'the database file is damaged', false)
  }
  return fault('STORE_FAILED', 'the database failed', false)

  function fault(name: string, sentence: string, retryable: boolean): Fault {
    const label = code === '' ? (errno === 0 ? '' : `${errno}: `) : `${code}: `
    return new Fault(name, `${sentence} (${label}${shortened(message)})`, {
      retryable,
      cause: error,
    })
  }
}

/** Whether the statement died with its connection, so that a read may be tried once more. */
export function isConnectionLost(error: unknown): boolean {
  const { code, errno, message } = described(error)
  return (
    CONNECTION_LOST.has(code) ||
    CONNECTION_LOST_NUMBERS.has(errno) ||
    / in closed state/.test(message) ||
    // The driver's word for a connection that can serve no more, whatever it was that ended it.
    ((error as { fatal?: unknown } | null)?.fatal === true && !REFUSED.has(code))
  )
}

/** Returns the server's answer if it refused a login; undefined for every other error. */
export function loginRefusal(error: unknown): object | undefined {
  const said = described(error)
  return REFUSED.has(said.code) && said.code !== TABLE_REFUSED ? said : undefined
}

/** Whether the server answers and does nothing: a part of a cluster that is without its majority, or just comes. */
export function isServerIdle(error: unknown): boolean {
  return described(error).errno === 1047
}

function described(error: unknown): { code: string; errno: number; message: string } {
  if (typeof error !== 'object' || error === null) {
    return { code: '', errno: 0, message: String(error) }
  }
  const { code, errno, message } = error as { code?: unknown; errno?: unknown; message?: unknown }
  return {
    code: typeof code === 'string' ? code : '',
    errno: typeof errno === 'number' ? errno : 0,
    message: typeof message === 'string' ? message : '',
  }
}

/** Enough of the driver's sentence to act on, and never a whole statement of a batch. */
function shortened(message: string): string {
  const line = message.replaceAll(/\s+/g, ' ').trim()
  return line.length <= 200 ? line : `${line.slice(0, 197)}...`
}
