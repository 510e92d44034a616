/** Starts, asks and stops the thread that does the checkpoints of one writer: of its partitions, or of the database. */

import { Worker } from 'node:worker_threads'

/** Places in the words that both threads share. */
export const STOP = 0
/** How often anything was asked for. */
export const ASKED = 1
/**
 * From here on three words for each file: how often a checkpoint was asked for, how many of these were met, and
 * the pages in the write-ahead file at the last one.
 */
export const FILES = 2
export const WORDS = 3

export type CheckpointThreadData = {
  readonly files: readonly string[]
  readonly words: SharedArrayBuffer
}

export type Checkpointer = {
  /** Asks for a checkpoint of a file, by its place in the list. */
  ask(file: number): void
  /** Another number whenever a checkpoint has ended. */
  ended(file: number): number
  /**
   * Asks, and settles when it was done, with the pages that the write-ahead file had; at once where there is no
   * thread to do it.
   */
  done(file: number): Promise<number>
  stop(): Promise<void>
}

/** The thread itself starts with the first request: a log that is hardly written needs none. */
export function makeCheckpointer(files: readonly string[], name = 'log-checkpoints'): Checkpointer {
  const words = new SharedArrayBuffer(4 * (FILES + WORDS * files.length))
  const shared = new Int32Array(words)
  let worker: Worker | undefined
  let ended = false
  let stopping = false
  /** Those that wait for a checkpoint: of which file, and how many of it must have ended. */
  let waiting: { readonly file: number; readonly count: number; readonly resolve: () => void }[] =
    []
  const endedOf = (file: number): number => Atomics.load(shared, FILES + WORDS * file + 1)
  const tellWaiting = () => {
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
      tellWaiting()
    })
    // It says so after each.
    worker.on('message', tellWaiting)
    // Without the thread the writer does the checkpoints itself: slower, and as safe.
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
      // One that is under way began before.
      waiting.push({ file, count: Atomics.load(shared, FILES + WORDS * file) + 1, resolve })
      ask(file)
      // A process must not end while one waits for it.
      worker?.ref()
      await promise
      return Atomics.load(shared, FILES + WORDS * file + 2)
    },
    async stop() {
      if (worker === undefined || ended) return
      // Not `once`, which rejects when the thread fails meanwhile: it has ended then too.
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
