/** Runs a thread of the verify pool. The pool calls the exported functions by name. */

import { workerData } from 'node:worker_threads'
import { makeVerifyJobs, type VerifyWorkerData } from '#verify/verify-jobs.ts'

export const { inspectPacked, recoverMessageSigner, engines } = await makeVerifyJobs(
  workerData as VerifyWorkerData,
)
