/** Runs several reads in one snapshot: all of them see the database as it was at the first read. */

import { IsolationLevel } from '@mikro-orm/core'
import { type Database, sqlConnection } from './database.ts'
import { beginSnapshot } from './prepared.ts'
import { type Statements, statements } from './statements.ts'
import { storeFault } from './store-fault.ts'

/**
 * Runs the reads once, without retries, because the caller may have used earlier results. On SQLite, other calls of
 * this database wait until the reads have ended.
 */
export async function snapshot<T>(
  database: Database,
  ask: (statements: Statements) => Promise<T>,
): Promise<T> {
  const connection = sqlConnection(database)
  const isMysql = database.address.dialect === 'mysql'
  const ended = beginSnapshot(database)
  try {
    return await connection.transactional(
      (transaction) => ask(statements(database, connection, transaction)),
      // SQLite always has this isolation level; a server may be set to a lower one.
      isMysql ? { isolationLevel: IsolationLevel.REPEATABLE_READ, readOnly: true } : {},
    )
  } catch (error) {
    throw storeFault(error)
  } finally {
    ended()
  }
}
