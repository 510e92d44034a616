/**
 * Starts the thread that copies the write-ahead file of the SQLite database into the database file. The log
 * uses a thread of the same kind.
 */

import { makeCheckpointer } from '#log/partition/checkpointer.ts'
import type { Copier } from '#store/engine/write-ahead.ts'

export function databaseCopier(path: string): Copier {
  const checkpointer = makeCheckpointer([path], 'database-checkpoints')
  return { copy: () => checkpointer.done(0), stop: () => checkpointer.stop() }
}
