/** Starts, asks and stops the thread that sorts and merges the closed orders of one writer's partitions. */

import { Worker } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import type { MergeJob } from './closed-merge.ts'
import type { RunMeta } from './closed-run.ts'

export type MergeRequest = { readonly number: number; readonly job: MergeJob }

export type MergeAnswer = { readonly number: number } & (
  | { readonly run: RunMeta | undefined }
  | {
      readonly failed: {
        readonly code: string
        readonly message: string
        readonly retryable: boolean
      }
    }
)

type ClosedJobs = {
  run(job: MergeJob): Promise<RunMeta | undefined>
  stop(): Promise<void>
}

/** The thread starts with the first job: most logs never have so many closed orders. */
export function makeClosedJobs(): ClosedJobs {
  let worker: Worker | undefined
  let lastNumber = 0
  const waiting = new Map<number, PromiseWithResolvers<RunMeta | undefined>>()

  function start(): Worker {
    const started = new Worker(new URL('./closed-thread.ts', import.meta.url), {
      name: 'log-closed-orders',
    })
    started.unref()
    started.on('message', (answer: MergeAnswer) => {
      const asked = waiting.get(answer.number)
      waiting.delete(answer.number)
      if ('run' in answer) asked?.resolve(answer.run)
      else {
        const { code, message, retryable } = answer.failed
        asked?.reject(new Fault(code, message, { retryable }))
      }
    })
    const ended = (why: string) => {
      if (worker === started) worker = undefined
      for (const { reject } of waiting.values()) {
        reject(new Fault('LOG_MERGE_FAILED', why, { retryable: true }))
      }
      waiting.clear()
    }
    started.on('error', (error) => ended(error instanceof Error ? error.message : String(error)))
    started.on('exit', () => ended('the thread of closed orders has ended'))
    return started
  }

  return {
    run(job) {
      worker ??= start()
      const asked = Promise.withResolvers<RunMeta | undefined>()
      const number = ++lastNumber
      waiting.set(number, asked)
      worker.postMessage({ number, job } satisfies MergeRequest)
      return asked.promise
    },
    // What it has not finished has no name yet in the partition: the next open removes it.
    stop: async () => {
      await worker?.terminate()
    },
  }
}
