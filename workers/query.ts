/** Runs a thread of the query pool. The pool passes `{ databaseUrl }` and calls `answer` or `writePages`. */

import { workerData } from 'node:worker_threads'
import { makePageWriter } from '#services/front/query-pages.ts'
import { makeReads } from '#store/reads/reads.ts'

const { databaseUrl } = workerData as { readonly databaseUrl: string }
const reads = makeReads(databaseUrl)

export const answer = reads.run
export const writePages = makePageWriter(reads.query, reads.together)
