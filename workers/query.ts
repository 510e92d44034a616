/** A thread of the query pool, which calls `answer` and hands `{ databaseUrl }` in as worker data. */

import { workerData } from 'node:worker_threads'
import { makeReads } from '#store/reads/reads.ts'

const { databaseUrl } = workerData as { readonly databaseUrl: string }

export const answer = makeReads(databaseUrl).run
