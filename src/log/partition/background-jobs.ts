/**
 * Starts and stops the thread for long work of one writer's partitions, and sends it jobs: sorting and merging closed
 * orders, and archiving events.
 */

import { Worker } from 'node:worker_threads'
import { Fault } from '#domain/fault.ts'
import type { ArchiveJob, Segment } from '../archive/archive-writer.ts'
import type { MergeJob } from '../closed/closed-merge.ts'
import type { RunMeta } from '../closed/closed-run.ts'

/** Jobs by name. */
type Jobs = {
  merge: { takes: MergeJob; answers: RunMeta | undefined }
  archive: { takes: ArchiveJob; answers: Segment | undefined }
}

export type JobRequest = {
  readonly [Name in keyof Jobs]: {
    readonly number: number
    readonly name: Name
    readonly job: Jobs[Name]['takes']
  }
}[keyof Jobs]

export type JobAnswer = { readonly number: number } & (
  | { readonly done: unknown }
  | {
      readonly failed: {
        readonly code: string
        readonly message: string
        readonly retryable: boolean
      }
    }
)

type BackgroundJobs = {
  run<Name extends keyof Jobs>(name: Name, job: Jobs[Name]['takes']): Promise<Jobs[Name]['answers']>
  stop(): Promise<void>
}

/**
 * A thread and its own pending jobs. When a thread fails, its exit event may arrive after the next thread has started.
 * That event must reject only the jobs of the failed thread.
 */
type Running = {
  readonly worker: Worker
  readonly waiting: Map<number, PromiseWithResolvers<unknown>>
}

/**
 * Creates an object that runs the long jobs of one writer in a thread. The thread starts only with the first job,
 * because most logs never need the thread.
 */
export function makeBackgroundJobs(): BackgroundJobs {
  let running: Running | undefined
  let lastNumber = 0

  function start(): Running {
    const worker = new Worker(new URL('./background-thread.ts', import.meta.url), {
      name: 'log-background',
    })
    const waiting: Running['waiting'] = new Map()
    const started = { worker, waiting }
    worker.unref()
    worker.on('message', (answer: JobAnswer) => {
      const asked = waiting.get(answer.number)
      waiting.delete(answer.number)
      if ('done' in answer) asked?.resolve(answer.done)
      else {
        const { code, message, retryable } = answer.failed
        asked?.reject(new Fault(code, message, { retryable }))
      }
    })
    const ended = (why: string) => {
      if (running === started) running = undefined
      for (const { reject } of waiting.values()) {
        reject(new Fault('LOG_MERGE_FAILED', why, { retryable: true }))
      }
      waiting.clear()
    }
    worker.on('error', (error) => ended(error instanceof Error ? error.message : String(error)))
    worker.on('exit', () => ended('the background thread of the log has ended'))
    return started
  }

  return {
    run(name, job) {
      running ??= start()
      const asked = Promise.withResolvers<unknown>()
      const number = ++lastNumber
      running.waiting.set(number, asked)
      running.worker.postMessage({ number, name, job } as JobRequest)
      return asked.promise as never
    },
    // An interrupted job leaves an unused file, which the next open removes.
    stop: async () => {
      await running?.worker.terminate()
    },
  }
}
