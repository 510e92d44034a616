/**
 * A thread of the query pool: one read-only connection, opened by the first query. The pool names
 * the function (`name: 'answer'`) and hands `{ databaseUrl }` in as worker data.
 */

import { workerData } from 'node:worker_threads'
import { type Database, openDatabase } from '#store/engine/database.ts'
import { answerQuery, type QueryReply, type QueryTask } from '#store/reads/queries.ts'

export type QueryWorkerData = { readonly databaseUrl: string }

const { databaseUrl } = workerData as QueryWorkerData
let opening: Promise<Database> | undefined

export function answer(task: QueryTask): Promise<QueryReply> {
  return answerQuery(open, task)
}

/** Opens once; a failed attempt is forgotten, so that the next query tries again. */
function open(): Promise<Database> {
  opening ??= openDatabase(databaseUrl, { readOnly: true }).catch((error) => {
    opening = undefined
    throw error
  })
  return opening
}
