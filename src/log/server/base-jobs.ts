/** Starts, asks and stops the thread that puts bases of one writer's partitions into the database. */

import { Worker } from 'node:worker_threads'
import type { MysqlAddress } from './mysql-server.ts'

export type BaseThreadData = {
  readonly dataDir: string
  readonly logId: string
  readonly address: MysqlAddress
}

/** The epoch is the one of the partition's owner: when another is the newest, the base is given up. */
export type BaseRequest = { readonly partition: number; readonly epoch: number }

export type BaseAnswer = { readonly partition: number } & (
  | { readonly seq: number }
  | { readonly failed: string }
)

type BaseJobs = {
  /** Answers when the base is there, or why it is not. */
  make(request: BaseRequest): Promise<BaseAnswer>
  stop(): Promise<void>
}

/** The thread starts with the first base: a log that is hardly written needs none. */
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
      // A thread that has failed says so, and later once more that it has ended.
      if (worker !== started) return
      worker = undefined
      for (const [partition, answer] of waiting) answer({ partition, failed })
      waiting.clear()
    }
    started.on('error', (error) => ended(error instanceof Error ? error.message : String(error)))
    started.on('exit', () => ended('the thread of bases has ended'))
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
    // What it has not finished is named by no base, and goes with the next.
    stop: async () => {
      await worker?.terminate()
    },
  }
}
