/**
 * Starts and stops the checkpoint thread of one writer, and sends it requests to checkpoint the writer's database
 * files.
 */

import { Worker } from 'node:worker_threads'

/** Index of the stop flag in the memory that the writer and the thread share. */
export const STOP = 0
/** Index of the number of requests so far. */
export const ASKED = 1
/**
 * Three words per file, starting at this index: number of requested checkpoints, number of completed checkpoints, and
 * the pages in the write-ahead file after the last checkpoint.
 */
export const FILES = 2
export const WORDS = 3

export type CheckpointThreadData = {
  readonly files: readonly string[]
  readonly words: SharedArrayBuffer
}

export type Checkpointer = {
  /** Requests a checkpoint of a file, by its index in the list. */
  ask(file: number): void
  /** Returns a value that changes whenever a checkpoint has ended. */
  ended(file: number): number
  /**
   * Requests a checkpoint. Resolves with the number of pages in the write-ahead file when the checkpoint is done, or
   * immediately if the thread has failed.
   */
  done(file: number): Promise<number>
  stop(): Promise<void>
}

/**
 * Creates a checkpointer. The thread starts only with the first request, because a log with few writes does not need
 * the thread.
 */
export function makeCheckpointer(files: readonly string[], name = 'log-checkpoints'): Checkpointer {
  const words = new SharedArrayBuffer(4 * (FILES + WORDS * files.length))
  const shared = new Int32Array(words)
  let worker: Worker | undefined
  let ended = false
  let stopping = false
  /**
   * Callers that wait for a checkpoint. Each caller has a file, and the number of checkpoints of that file that must
   * have ended.
   */
  let waiting: { readonly file: number; readonly count: number; readonly resolve: () => void }[] =
    []
  const endedOf = (file: number): number => Atomics.load(shared, FILES + WORDS * file + 1)
  const resolveWaiting = () => {
    waiting = waiting.filter(({ file, count, resolve }) => {
      const isDone = ended || endedOf(file) >= count
      if (isDone) resolve()
      return !isDone
    })
    if (waiting.length === 0 && !stopping) worker?.unref()
  }
  const start = () => {
    worker = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), {
      name,
      workerData: { files, words } satisfies CheckpointThreadData,
    })
    worker.unref()
    worker.once('exit', () => {
      ended = true
      resolveWaiting()
    })
    // The thread sends a message after each checkpoint.
    worker.on('message', resolveWaiting)
    // Ignore the error: without the thread, the writer does the checkpoints itself. This is slower, but just as safe.
    worker.on('error', () => undefined)
  }
  const ask = (file: number): void => {
    if (ended) return
    if (worker === undefined) start()
    Atomics.add(shared, FILES + WORDS * file, 1)
    Atomics.add(shared, ASKED, 1)
    Atomics.notify(shared, ASKED)
  }
  return {
    ask,
    ended: endedOf,
    async done(file) {
      if (ended) return 0
      const { promise, resolve } = Promise.withResolvers<void>()
      // Wait for the next checkpoint. A checkpoint that is already in progress may have begun before the last write.
      waiting.push({ file, count: Atomics.load(shared, FILES + WORDS * file) + 1, resolve })
      ask(file)
      // Keeps the process alive while a caller waits for a checkpoint.
      worker?.ref()
      await promise
      return Atomics.load(shared, FILES + WORDS * file + 2)
    },
    async stop() {
      if (worker === undefined || ended) return
      // Do not use `once` of `node:events`: it would reject if the thread fails, but `stop` should resolve in this case
      // too.
      const { promise: exited, resolve } = Promise.withResolvers<unknown>()
      worker.once('exit', resolve)
      stopping = true
      worker.ref()
      Atomics.store(shared, STOP, 1)
      Atomics.add(shared, ASKED, 1)
      Atomics.notify(shared, STOP)
      Atomics.notify(shared, ASKED)
      await exited
    },
  }
}
