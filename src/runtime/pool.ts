/**
 * A pool of stateless threads: work goes to whichever is free. Too much of it is refused. A pool is
 * closed only after its threads have loaded: Node aborts the process when a thread is ended before.
 */

import type { Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { inTime } from './in-time.ts'
import type { PoolTask, PoolThreadSays } from './pool-thread.ts'

type Pool = {
  /** Calls the export `name` of the entry. Rejects with `PoolFull`, or when the thread died. */
  run(task: unknown, name: string): Promise<unknown>
  /** Refuses what waits, and ends when what is under way has ended, or does not end in time. */
  close(): Promise<void>
  readonly waiting: number
  /** Processor time of the threads that it has now; of one that is in long work, as it was told last. */
  cpuSeconds(): Promise<number>
}

/** The queue of a pool is full; trying again later may help. */
export class PoolFull extends Error {}

const LOAD_MS_MAX = 30_000
const CLOSE_MS_MAX = 5_000
/** How long a thread may take to tell its processor time. */
const TELL_MS_MAX = 100

export function makePool(options: {
  readonly entry: URL
  readonly threads: number
  readonly data: object
  readonly queueMax: number
  /** Tasks one thread may hold at once; more than one keeps it busy while answers travel. */
  readonly concurrentPerThread?: number
}): Pool {
  const piscina = new Piscina({
    filename: new URL('./pool-thread.ts', import.meta.url).href,
    name: 'run',
    minThreads: options.threads,
    maxThreads: options.threads,
    maxQueue: options.queueMax,
    concurrentTasksPerWorker: options.concurrentPerThread ?? 1,
    workerData: { ...options.data, poolEntry: options.entry.href },
    closeTimeout: CLOSE_MS_MAX,
    // Else a task that finds no thread free goes to the end of the queue again, and may wait for ever.
    stricterFIFO: true,
    // Waiting by Atomics would stop a worker's own event loop, and with it its connections.
    atomics: 'disabled',
  })
  let loading = options.threads
  let allLoaded: () => void = () => {}
  piscina.on('message', (said: PoolThreadSays) => {
    if (said === 'loaded') loading--
    if (loading === 0) allLoaded()
  })
  const told = new WeakMap<Worker, number>()
  async function secondsOf(thread: Worker): Promise<number> {
    // One that is ending tells nothing any more.
    const usage = await inTime(
      thread.cpuUsage().catch(() => undefined),
      TELL_MS_MAX,
    )
    if (usage !== undefined) told.set(thread, (usage.user + usage.system) / 1e6)
    return told.get(thread) ?? 0
  }
  // A thread that dies is replaced by one that has to load.
  piscina.on('workerDestroy', () => loading++)
  // The caller that waits for a task hears of it; a death without a task concerns no caller.
  piscina.on('error', () => {})
  return {
    async run(task, name) {
      if (piscina.queueSize >= options.queueMax) throw new PoolFull('the queue of a pool is full')
      return piscina.run({ name, task } satisfies PoolTask)
    },
    async close() {
      const loaded = new Promise<void>((resolve) => {
        allLoaded = resolve
        if (loading === 0) resolve()
      })
      await inTime(loaded, LOAD_MS_MAX)
      await piscina.close({ force: true })
    },
    get waiting() {
      return piscina.queueSize
    },
    async cpuSeconds() {
      let seconds = 0
      for (const each of await Promise.all(piscina.threads.map(secondsOf))) seconds += each
      return seconds
    },
  }
}
