/**
 * Starts and stops the thread that uploads the bases (stored copies of the files) of one writer's partitions, and sends
 * requests to it.
 */

import { Worker } from 'node:worker_threads'
import type { MysqlAddress } from './mysql-server.ts'

export type BaseThreadData = {
  readonly dataDir: string
  readonly logId: string
  readonly address: MysqlAddress
}

/** `epoch` is the epoch of the partition's owner; if a newer owner exists, no base is made. */
export type BaseRequest = { readonly partition: number; readonly epoch: number }

export type BaseAnswer = { readonly partition: number } & (
  | { readonly seq: number }
  | { readonly failed: string }
)

type BaseJobs = {
  /** Resolves with the result when the base is stored or its upload has failed. */
  make(request: BaseRequest): Promise<BaseAnswer>
  stop(): Promise<void>
}

/**
 * Creates an object that requests bases (stored copies of the files) from a thread. The thread starts only with the
 * first request, because a log with few writes does not need the thread.
 */
export function makeBaseJobs(data: BaseThreadData): BaseJobs {
  let worker: Worker | undefined
  const waiting = new Map<number, (answer: BaseAnswer) => void>()

  function start(): Worker {
    const started = new Worker(new URL('./base-thread.ts', import.meta.url), {
      name: 'log-bases',
      workerData: data,
    })
    started.unref()
    started.on('message', (answer: BaseAnswer) => {
      waiting.get(answer.partition)?.(answer)
      waiting.delete(answer.partition)
    })
    const ended = (failed: string) => {
      // A failing thread emits its error first and its exit later. Handle only the first of these events.
      if (worker !== started) return
      worker = undefined
      for (const [partition, answer] of waiting) answer({ partition, failed })
      waiting.clear()
    }
    started.on('error', (error) => ended(error instanceof Error ? error.message : String(error)))
    started.on('exit', () =>
      ended('the thread for uploading bases (stored copies of partitions) has ended'),
    )
    return started
  }

  return {
    make(request) {
      worker ??= start()
      const { promise, resolve } = Promise.withResolvers<BaseAnswer>()
      waiting.set(request.partition, resolve)
      worker.postMessage(request)
      return promise
    },
    // An interrupted upload leaves files that no base names; the next upload deletes them.
    stop: async () => {
      await worker?.terminate()
    },
  }
}
