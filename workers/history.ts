/**
 * Runs the history thread of a front, which reads past books and archive files. The front passes `{ databaseUrl }`.
 */

import { workerData } from 'node:worker_threads'
import { makeHistoryJobs } from '#services/front/history-jobs.ts'
import { makeReads } from '#store/reads/reads.ts'

const { databaseUrl } = workerData as { readonly databaseUrl: string }

export const { pastBook, archivePart } = makeHistoryJobs(makeReads(databaseUrl).query)
