/**
 * Starts the thread that copies the write-ahead file of the SQLite database into the database file, as is done for
 * the log.
 */

import { makeCheckpointer } from '#log/partition/checkpointer.ts'
import type { Copier } from '#store/engine/write-ahead.ts'

export function databaseCopier(path: string): Copier {
  const checkpointer = makeCheckpointer([path], 'database-checkpoints')
  return { copy: () => checkpointer.done(0), stop: () => checkpointer.stop() }
}
