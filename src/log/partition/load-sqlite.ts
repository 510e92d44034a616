/**
 * Loads SQLite into this thread. To choose its native part, the package asks Node for a report about the whole
 * process, for which every worker is stopped and asked too. So main loads it while there is none yet.
 */

import Database from 'better-sqlite3'

export function loadSqlite(): void {
  new Database(':memory:').close()
}
