/** A small thread beside the writer that sorts and merges closed orders, one job after the other. */

import { parentPort } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import type { MergeAnswer, MergeRequest } from './closed-jobs.ts'
import { mergeClosed } from './closed-merge.ts'
import { sqliteFault } from './sqlite-fault.ts'

function answerTo({ number, job }: MergeRequest): MergeAnswer {
  try {
    return { number, run: mergeClosed(job) }
  } catch (error) {
    const fault = sqliteFault('LOG_MERGE_FAILED', job.folder, error)
    if (!(fault instanceof Fault)) throw error
    const { code, message, retryable } = fault
    return { number, failed: { code, message, retryable } }
  }
}

parentPort?.on('message', (request: MergeRequest) => {
  parentPort?.postMessage(answerTo(request))
})
