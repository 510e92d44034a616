/** A thread's own read connection to the database, opened by the first query. */

import { closeDatabase, type Database } from '../engine/database.ts'
import { readTogether } from '../engine/prepared.ts'
import type { StoreReply } from '../engine/reply.ts'
import { closedFault } from '../engine/store-fault.ts'
import { openDatabase } from '../open-database.ts'
import { answerQuery, type QueryTask } from './answer-query.ts'
import { type NeedsPage, type OpenNeedsOptions, openNeeds } from './open-needs.ts'
import { askQuery, type Query } from './queries.ts'

export type Reads = {
  readonly query: Query
  /** Runs a query that is given as a message (a task). */
  run(task: QueryTask): Promise<StoreReply>
  /** Runs short reads that belong together. On SQLite, all of them see the same state of the database. */
  together<T>(work: () => Promise<T>): Promise<T>
  /**
   * Reads the data for the computation of reserved funds (`open-needs.ts`) from one snapshot. Passes it to `take` page
   * by page.
   */
  openNeeds(
    options: OpenNeedsOptions,
    take: (page: NeedsPage) => void | Promise<void>,
  ): Promise<void>
  close(): Promise<void>
}

export function makeReads(databaseUrl: string): Reads {
  let opening: Promise<Database> | undefined
  let closed = false

  /** Opens the database once. After a failed attempt, the next query tries again. */
  async function open(): Promise<Database> {
    if (closed) throw closedFault()
    opening ??= openDatabase(databaseUrl, { readOnly: true }).catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }

  const run = (task: QueryTask) => answerQuery(open, task)
  return {
    run,
    query: (name, args) => askQuery({ run }, name, args),
    together: async (work) => readTogether(await open(), work),
    openNeeds: async (options, take) => openNeeds(await open(), options, take),
    async close() {
      closed = true
      const database = await opening?.catch(() => undefined)
      if (database !== undefined) await closeDatabase(database)
    },
  }
}
