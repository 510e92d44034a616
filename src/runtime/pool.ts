/** A pool of stateless threads: work goes to whichever is free. Too much of it is refused. */

import { Piscina } from 'piscina'

export type Pool = {
  /** Rejects when the queue is full or the thread died; the caller decides what that means. */
  run(task: unknown): Promise<unknown>
  close(): Promise<void>
  readonly waiting: number
}

export function makePool(options: {
  readonly entry: URL
  readonly threads: number
  readonly data: object
  readonly queueMax: number
  /** Tasks one thread may hold at once; more than one keeps it busy while answers travel. */
  readonly concurrentPerThread?: number
}): Pool {
  const piscina = new Piscina({
    filename: options.entry.href,
    minThreads: options.threads,
    maxThreads: options.threads,
    maxQueue: options.queueMax,
    concurrentTasksPerWorker: options.concurrentPerThread ?? 1,
    workerData: options.data,
  })
  return {
    run: (task) => piscina.run(task),
    close: () => piscina.destroy(),
    get waiting() {
      return piscina.queueSize
    },
  }
}
