/**
 * Waits for the disk without the thread: what was written to a file before is durable when a sync has ended.
 */

import { existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export type DurableFile = {
  sync(): Promise<void>
  close(): Promise<void>
}

/** The file is opened with the first sync that finds it: one that is not there has nothing to be synced. */
export function openDurableFile(path: string): DurableFile {
  let file: FileHandle | undefined
  let opening: Promise<void> | undefined

  async function openFile(): Promise<void> {
    if (existsSync(path)) file = await open(path, 'r+')
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
