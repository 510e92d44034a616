/**
 * A pool of stateless threads: a task goes to any free thread, or waits in a queue. If the queue is full, the task is
 * rejected. Closing waits until the threads have loaded (at most `LOAD_MS_MAX`), because Node aborts the process if a
 * thread is ended while it loads.
 */

import type { Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { inTime } from './in-time.ts'
import type { PoolTask, PoolThreadMessage } from './pool-thread.ts'

type Pool = {
  /**
   * Calls the export `name` of the entry module. Rejects with `PoolFull` if the queue is full or the pool is closing,
   * and with another error if the task fails or the thread dies.
   */
  run(task: unknown, name: string): Promise<unknown>
  /** Rejects waiting tasks. Resolves when the running tasks have ended, or after a timeout. */
  close(): Promise<void>
  readonly waiting: number
  /**
   * Returns the CPU time of the pool's current threads in seconds. If a thread is busy and does not answer, its last
   * report counts.
   */
  cpuSeconds(): Promise<number>
}

/** The queue of a pool is full, or the pool is closing. */
export class PoolFull extends Error {}

const LOAD_MS_MAX = 30_000
const CLOSE_MS_MAX = 5_000
/** Maximum time for a thread to report its CPU time. */
const TELL_MS_MAX = 100

export function makePool(options: {
  readonly entry: URL
  readonly threads: number
  readonly data: object
  readonly queueMax: number
  /**
   * Maximum number of tasks that one thread has at the same time. With more than one, the thread stays busy while
   * answers are on their way.
   */
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
    // Without this option, a task that finds no free thread goes back to the end of the queue, and may wait forever.
    stricterFIFO: true,
    // Piscina could wait by Atomics, which would block the event loop of the thread that calls it, and with it the
    // connections of that thread.
    atomics: 'disabled',
  })
  let loading = options.threads
  let allLoaded: () => void = () => {}
  piscina.on('message', (said: PoolThreadMessage) => {
    if (said === 'loaded') loading--
    if (loading === 0) allLoaded()
  })
  const reported = new WeakMap<Worker, number>()
  async function secondsOf(thread: Worker): Promise<number> {
    // A thread that is about to end may not answer. Its last report then counts.
    const usage = await inTime(
      thread.cpuUsage().catch(() => undefined),
      TELL_MS_MAX,
    )
    if (usage !== undefined) reported.set(thread, (usage.user + usage.system) / 1e6)
    return reported.get(thread) ?? 0
  }
  // A thread that replaces a dead one counts as loading until it reports that it has loaded.
  piscina.on('workerDestroy', () => loading++)
  // Ignore this event: the caller of a task receives the task's error. Without a task, there is no caller to notify.
  piscina.on('error', () => {})
  let isClosing = false
  return {
    async run(task, name) {
      if (piscina.queueSize >= options.queueMax)
        throw new PoolFull('the queue of this thread pool is full')
      try {
        return await piscina.run({ name, task } satisfies PoolTask)
      } catch (error) {
        throw isClosing ? new PoolFull('the pool is closing') : error
      }
    },
    async close() {
      isClosing = true
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
