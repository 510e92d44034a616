/** A thread of the verify pool, which calls these by their names. */

import { workerData } from 'node:worker_threads'
import { makeVerifyJobs, type VerifyWorkerData } from '#verify/verify-jobs.ts'

const { domains } = workerData as VerifyWorkerData

export const { inspectOrders, recoverMessageSigner, engines } = await makeVerifyJobs(domains)
