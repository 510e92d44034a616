/** Converts SQLite errors to faults; any other error is a bug and is thrown unchanged. */

import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { corrupt } from './record.ts'

/** SQLite errors that mean a damaged or wrong file; a retry does not help. */
const DAMAGE = ['SQLITE_CORRUPT', 'SQLITE_NOTADB', 'SQLITE_FORMAT', 'SQLITE_ERROR', 'SQLITE_SCHEMA']

export function sqliteFault(code: string, doing: string, error: unknown): unknown {
  if (isSqliteDamage(error)) return corrupt(`${doing}: ${(error as Error).message}`, error)
  if (error instanceof Database.SqliteError || isSystemError(error)) {
    return new Fault(code, `${doing}: ${(error as Error).message}`, {
      retryable: true,
      cause: error,
    })
  }
  return error
}

function isSqliteDamage(error: unknown): boolean {
  return (
    error instanceof Database.SqliteError &&
    DAMAGE.some((code) => error.code === code || error.code.startsWith(`${code}_`))
  )
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
