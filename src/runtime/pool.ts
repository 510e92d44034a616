/** A pool of stateless threads: work goes to whichever is free. Too much of it is refused. */

import { Piscina } from 'piscina'

export type Pool = {
  /** Calls the export `name` of the entry. Rejects when the queue is full or the thread died. */
  run(task: unknown, name: string): Promise<unknown>
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
    // Else a task that finds no thread free goes to the end of the queue again, and may wait for ever.
    stricterFIFO: true,
    // Waiting by Atomics would stop a worker's own event loop, and with it its connections.
    atomics: 'disabled',
  })
  return {
    run: (task, name) => piscina.run(task, { name }),
    close: () => piscina.destroy(),
    get waiting() {
      return piscina.queueSize
    },
  }
}
