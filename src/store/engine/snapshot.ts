/** Reads that belong together: all of them see the database as it is at the first. */

import { IsolationLevel } from '@mikro-orm/core'
import { type Database, sqlConnection } from './database.ts'
import { beginSnapshot } from './prepared.ts'
import { type Statements, statements } from './statements.ts'
import { storeFault } from './store-fault.ts'

/**
 * Nothing is tried again, since the caller may have used what was read before a fault. On SQLite other
 * calls of this database wait until it is over.
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
      // SQLite knows no other; a server may have been set to less.
      isMysql ? { isolationLevel: IsolationLevel.REPEATABLE_READ, readOnly: true } : {},
    )
  } catch (error) {
    throw storeFault(error)
  } finally {
    ended()
  }
}
