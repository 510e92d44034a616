/**
 * Syncs files without blocking the thread. When a sync has ended, everything written before it began is durable. Linux
 * reports a failed sync only once. After the failure, Linux treats the lost pages as written, so the next sync succeeds
 * although these pages are not on the disk. Only writing the content again (`writeAgain`) makes it durable.
 */

import { closeSync, existsSync, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export type DurableFile = {
  sync(): Promise<void>
  close(): Promise<void>
}

const CHUNK_BYTES = 1024 * 1024

/**
 * Returns an object that syncs the file. The first sync that finds the file opens it; a missing file needs no
 * sync.
 */
export function openDurableFile(path: string): DurableFile {
  let file: FileHandle | undefined
  let opening: Promise<void> | undefined

  async function openFile(): Promise<void> {
    // The file may vanish at any time: the last connection that closes the database removes it.
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
 * Makes the content of a file durable, even after a failed sync: writes each byte over itself. No other writer may be
 * active.
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
