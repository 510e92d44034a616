/**
 * Converts driver errors to faults. Only the code and the message of a driver error leave the store; neither contains
 * the password of an address.
 */

import { AssertionError } from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'

/** Codes of lost connections: the statement may succeed on another connection. */
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

/** Error codes of a reachable database that cannot execute the statement now. */
const BUSY = new Set([
  'ER_CON_COUNT_ERROR',
  'ER_TOO_MANY_USER_CONNECTIONS',
  'ER_LOCK_DEADLOCK',
  'ER_LOCK_WAIT_TIMEOUT',
  'ER_QUERY_INTERRUPTED',
  'ER_DISK_FULL',
  'ER_RECORD_FILE_FULL',
  'ER_OPTION_PREVENTS_STATEMENT',
  // A cluster member answers with this code before it has joined the cluster again, or after it has left.
  'ER_UNKNOWN_COM_ERROR',
  // The cluster lost its majority during the commit. As after any failed transaction, the commit may have succeeded.
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

/** This code means that a statement was refused; the other codes of `REFUSED` mean a refused login. */
const TABLE_REFUSED = 'ER_TABLEACCESS_DENIED_ERROR'

const REFUSED = new Map([
  ['ER_ACCESS_DENIED_ERROR', 'the database refused the login'],
  ['ER_ACCESS_DENIED_NO_PASSWORD_ERROR', 'the database refused the login'],
  [
    'ER_DBACCESS_DENIED_ERROR',
    'the database user has no rights to the database: grant them with GRANT',
  ],
  ['ER_BAD_DB_ERROR', 'the server has no such database: create it with CREATE DATABASE'],
  [TABLE_REFUSED, 'the database user lacks rights to a table: grant them with GRANT'],
])

/**
 * MariaDB's error numbers for lost connections. The driver does not know some of them, and takes others for MySQL
 * errors with the same number.
 */
const CONNECTION_LOST_NUMBERS = new Set([1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031])

/** Returns the fault of a query after its database was closed. */
export function closedFault(): Fault {
  return new Fault('STORE_UNAVAILABLE', 'the database is closed', { retryable: true })
}

/** Returns whether the database refused a row because of a constraint. */
export function isConstraint(error: unknown): boolean {
  const { code } = described(error)
  return CONSTRAINT.has(code) || code.startsWith('SQLITE_CONSTRAINT')
}

export function storeFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  // A failed assertion is a bug of the exchange, not of the database.
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
    return fault('STORE_CONSTRAINT', 'the database refused a row that breaks a constraint', false)
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

/** Returns whether the statement's connection was lost, so a read may be retried. */
export function isConnectionLost(error: unknown): boolean {
  const { code, errno, message } = described(error)
  return (
    CONNECTION_LOST.has(code) ||
    CONNECTION_LOST_NUMBERS.has(errno) ||
    / in closed state/.test(message) ||
    // The driver marks a connection as fatal if it can no longer be used.
    ((error as { fatal?: unknown } | null)?.fatal === true && !REFUSED.has(code))
  )
}

/** Returns the server's answer if the server refused a login; undefined for every other error. */
export function loginRefusal(error: unknown): object | undefined {
  const description = described(error)
  return REFUSED.has(description.code) && description.code !== TABLE_REFUSED
    ? description
    : undefined
}

/** Returns whether the server answers but does no work: a cluster member without a majority, or one that is joining. */
export function isServerIdle(error: unknown): boolean {
  return described(error).errno === 1047
}

/**
 * Returns whether a statement exceeded the timeout for a lock. A Galera server also reports this error if it
 * cannot catch up with its cluster. Sessions that are open at that time may report the error for every later
 * statement.
 */
export function isLockWait(error: unknown): boolean {
  return described(error).errno === 1205
}

/**
 * Returns whether the transaction lost a deadlock, or on Galera a conflict with another server. The database has rolled
 * the whole transaction back, and the other transaction continues. So the lost transaction can be repeated immediately.
 */
export function isDeadlock(error: unknown): boolean {
  return described(error instanceof Fault ? error.cause : error).errno === 1213
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

/**
 * Returns the driver's message on one line, cut to 200 characters, so that it never contains a whole batch
 * statement.
 */
function shortened(message: string): string {
  const line = message.replaceAll(/\s+/g, ' ').trim()
  return line.length <= 200 ? line : `${line.slice(0, 197)}...`
}
