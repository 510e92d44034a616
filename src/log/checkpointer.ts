/** Starts, asks and stops the thread that does the checkpoints of one writer: of its partitions, or of the database. */

import { Worker } from 'node:worker_threads'

/** Places in the words that both threads share. */
export const STOP = 0
/** How often anything was asked for. */
export const ASKED = 1
/** From here on two words for each file: how many of its checkpoints were asked for, and have ended. */
export const FILES = 2

export type CheckpointThreadData = {
  readonly files: readonly string[]
  readonly words: SharedArrayBuffer
}

export type Checkpointer = {
  /** Asks for a checkpoint of a file, by its place in the list. */
  ask(file: number): void
  /** How many of its checkpoints have ended. */
  ended(file: number): number
  stop(): Promise<void>
}

/** The thread itself starts with the first request: a log that is hardly written needs none. */
export function makeCheckpointer(files: readonly string[], name = 'log-checkpoints'): Checkpointer {
  const words = new SharedArrayBuffer(4 * (FILES + 2 * files.length))
  const shared = new Int32Array(words)
  let worker: Worker | undefined
  let ended = false
  const start = () => {
    worker = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), {
      name,
      workerData: { files, words } satisfies CheckpointThreadData,
    })
    worker.unref()
    worker.once('exit', () => {
      ended = true
    })
    // Without the thread the writer does the checkpoints itself: slower, and as safe.
    worker.on('error', () => undefined)
  }
  return {
    ask(file) {
      if (ended) return
      if (worker === undefined) start()
      Atomics.add(shared, FILES + 2 * file, 1)
      Atomics.add(shared, ASKED, 1)
      Atomics.notify(shared, ASKED)
    },
    ended: (file) => Atomics.load(shared, FILES + 2 * file + 1),
    async stop() {
      if (worker === undefined || ended) return
      // Not `once`, which rejects when the thread fails meanwhile: it has ended then too.
      const { promise: exited, resolve } = Promise.withResolvers<unknown>()
      worker.once('exit', resolve)
      worker.ref()
      Atomics.store(shared, STOP, 1)
      Atomics.add(shared, ASKED, 1)
      Atomics.notify(shared, STOP)
      Atomics.notify(shared, ASKED)
      await exited
    },
  }
}
