/** A small thread beside the writer that runs the writer's long jobs one by one. */

import { parentPort } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import { writeSegment } from '../archive/archive-writer.ts'
import { mergeClosed } from '../closed/closed-merge.ts'
import type { JobAnswer, JobRequest } from './background-jobs.ts'
import { sqliteFault } from './sqlite-fault.ts'

function run(request: JobRequest): unknown {
  return request.name === 'merge' ? mergeClosed(request.job) : writeSegment(request.job)
}

function answerTo(request: JobRequest): JobAnswer {
  const { number, name, job } = request
  try {
    return { number, done: run(request) }
  } catch (error) {
    const code = name === 'merge' ? 'LOG_MERGE_FAILED' : 'LOG_ARCHIVE_FAILED'
    const fault = sqliteFault(code, job.folder, error)
    if (!(fault instanceof Fault)) throw error
    const { code: said, message, retryable } = fault
    return { number, failed: { code: said, message, retryable } }
  }
}

parentPort?.on('message', (request: JobRequest) => {
  parentPort?.postMessage(answerTo(request))
})
