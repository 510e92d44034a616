/**
 * Loads SQLite (`better-sqlite3`) into this thread. To choose its native binary, the package asks Node for a diagnostic
 * report of the process. To make this report, Node interrupts every worker. So the main thread loads the package before
 * it starts workers.
 */

import Database from 'better-sqlite3'

export function loadSqlite(): void {
  new Database(':memory:').close()
}
