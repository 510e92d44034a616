/**
 * Waits for the disk without the thread: what was written to a file before is durable when a sync has ended.
 * One that fails is told of once: Linux then takes what it could not write for written, and the next sync says that
 * all is well, unless what is there was written once more (`writeAgain`).
 */

import { closeSync, existsSync, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export type DurableFile = {
  sync(): Promise<void>
  close(): Promise<void>
}

const CHUNK_BYTES = 1024 * 1024

/** The file is opened with the first sync that finds it: one that is not there has nothing to be synced. */
export function openDurableFile(path: string): DurableFile {
  let file: FileHandle | undefined
  let opening: Promise<void> | undefined

  async function openFile(): Promise<void> {
    // It may go at any time: who closes the database last removes it.
    file = await open(path, 'r+').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return undefined
    })
    opening = undefined
  }

  return {
    async sync() {
      opening ??= file === undefined ? openFile() : undefined
      await opening
      await file?.datasync()
    },
    async close() {
      await opening
      await file?.close()
    },
  }
}

/**
 * Makes what a file has durable, also where a sync before has failed: each of its bytes is written over itself.
 * Nobody else may write it meanwhile.
 */
export function writeAgain(path: string): void {
  if (!existsSync(path)) return
  const file = openSync(path, 'r+')
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES)
    for (let at = 0; ; ) {
      const length = readSync(file, chunk, 0, CHUNK_BYTES, at)
      if (length === 0) break
      for (let done = 0; done < length; ) {
        done += writeSync(file, chunk, done, length - done, at + done)
      }
      at += length
    }
    fdatasyncSync(file)
  } finally {
    closeSync(file)
  }
}
