/**
 * Starts and stops the thread that uploads the bases of one writer's partitions, and sends requests to it. A base is a
 * stored copy of a partition's files.
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
  /**
   * Uploads a base. Resolves with the number of the last log row that the base contains, or with the reason of a
   * failure.
   */
  make(request: BaseRequest): Promise<BaseAnswer>
  stop(): Promise<void>
}

/**
 * Creates an object that passes requests for bases to a thread. A base is a stored copy of a partition's files. The
 * thread starts with the first request, because a log with few writes does not need it.
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
    // Files of an interrupted upload stay in the database, but no base lists them. The next upload deletes them.
    stop: async () => {
      await worker?.terminate()
    },
  }
}
