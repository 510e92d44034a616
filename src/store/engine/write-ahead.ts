/**
 * Copies SQLite's write-ahead file into the database in another thread, to relieve the writing thread. Each batch
 * changes pages all over the indexes. The file is copied only from time to time, so a page that several batches changed
 * is usually copied once, not once per batch.
 *
 * The copying thread cannot finish while the writer adds pages, so it copies twice. The first copy runs while the
 * writer continues, until few pages are left. The second copy writes these few pages before the next transaction writes
 * anything. After the second copy, SQLite writes the write-ahead file from its beginning again.
 *
 * A commit is on the disk before it is acknowledged, but the writing thread does not block during the sync. SQLite only
 * writes, and one of Node's file threads syncs the file.
 */

import { statSync } from 'node:fs'
import type { Database as DatabaseFile } from 'better-sqlite3'
import { type DurableFile, openDurableFile, writeAgain } from './durable-file.ts'

/** A thread that copies the write-ahead file of one database into the database. */
export type Copier = {
  /** Resolves with the number of pages in the write-ahead file after as many as possible were copied. Never rejects. */
  copy(): Promise<number>
  stop(): Promise<void>
}

export type WriteAhead = {
  /** Must be awaited before the first statement of each transaction. */
  begun(): Promise<void> | undefined
  /** Must be awaited after each commit; the commit is then on the disk. */
  wrote(): Promise<void> | undefined
  close(): Promise<void>
}

/**
 * Number of pages in the write-ahead log after which SQLite itself copies all of them to the database file within a
 * commit: 64 MiB, or 256 MiB if another thread copies.
 */
const PAGES_MAX = 16_384
const PAGES_MAX_WITH_COPIER = 65_536

/** The write-ahead file is copied about every `pages` new pages, at intervals between `minMs` and `maxMs`. */
const PACE = { minMs: 20, maxMs: 2_000, pages: 1_024 }
const PAGE_BYTES = 4_096

/** Keeps the write-ahead file small. Without a copier, SQLite copies within its own commits. */
export function keepWriteAhead(
  file: DatabaseFile,
  copier: Copier | undefined,
  { minMs, maxMs, pages } = PACE,
  durable: DurableFile = openDurableFile(`${file.name}-wal`),
): WriteAhead {
  file.pragma(`synchronous = ${copier === undefined ? 'FULL' : 'NORMAL'}`)
  file.pragma(`wal_autocheckpoint = ${copier === undefined ? PAGES_MAX : PAGES_MAX_WITH_COPIER}`)
  if (copier === undefined) {
    return { begun: () => undefined, wrote: () => undefined, close: async () => {} }
  }
  writeAnew(file)
  const { copy, stop } = copier
  let phase: 'writing' | 'copying' | 'little is left' = 'writing'
  let doneMs = performance.now()
  let everyMs = minMs
  /**
   * True once the write-ahead file has grown large. A small file is not copied: a database with few writes needs no
   * copying thread.
   */
  let isLarge = false

  function hasGrown(): boolean {
    const { size } = statSync(`${file.name}-wal`, { throwIfNoEntry: false }) ?? { size: 0 }
    return size >= pages * PAGE_BYTES
  }

  async function copyMost(): Promise<void> {
    phase = 'copying'
    await copy()
    phase = 'little is left'
  }

  async function copyRest(): Promise<void> {
    phase = 'copying'
    const copied = await copy()
    phase = 'writing'
    doneMs = performance.now()
    everyMs = Math.max(minMs, Math.min(maxMs, (everyMs * pages) / Math.max(1, copied)))
  }

  /** `syncing` is the current or last sync. `next` is the following sync, for all commits since `syncing` began. */
  let syncing: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /**
   * Syncs the file, one sync at a time. If two syncs ran at once, only one of them would receive the error of a failed
   * write. After a failed sync it is unknown which pages are on the disk. So this thread ends with the error, and the
   * next thread writes the file again.
   */
  function sync(): Promise<void> {
    next ??= syncing.then(() => {
      next = undefined
      syncing = durable.sync().catch((error: unknown) => {
        setImmediate(() => {
          throw error
        })
        // The promise never settles, because it is unknown whether the commit is durable.
        return new Promise<void>(() => {})
      })
      return syncing
    })
    return next
  }

  function copyInTime(): void {
    if (phase !== 'writing' || performance.now() - doneMs < everyMs) return
    isLarge ||= hasGrown()
    if (isLarge) void copyMost()
    else doneMs = performance.now()
  }

  return {
    begun: () => (phase === 'little is left' ? copyRest() : undefined),
    wrote() {
      copyInTime()
      return sync()
    },
    async close() {
      await stop()
      // Wait for the last syncs: a sync of a closed file would end the thread as if the disk had failed.
      while (next !== undefined) await next
      await syncing
      await durable.close()
    },
  }
}

/**
 * Writes the content of the write-ahead file again. The previous writer may have ended because the disk failed, so
 * pages of the file may be missing on the disk. A power cut would then lose everything after these pages. The open
 * transaction prevents other writers from changing the file in the meantime.
 */
function writeAnew(file: DatabaseFile): void {
  file.exec('BEGIN IMMEDIATE')
  try {
    writeAgain(`${file.name}-wal`)
  } finally {
    file.exec('ROLLBACK')
  }
}
