/**
 * Copies the write-ahead file of SQLite back into the database in another thread, so that the thread that writes is
 * not kept by it. A batch changes pages all over the indexes: copying them back now and then, not after every
 * batch, writes most of them once instead of many times.
 *
 * The other thread never gets to the end while something is written. So it copies twice: first while the writer goes
 * on, which leaves little, and then that, before the next transaction writes anything: the file starts over.
 *
 * A commit is on the disk before anybody is told of it, but the thread does not stand still for that: SQLite only
 * writes, and the file is synced by one of the threads that Node has for files.
 */

import { statSync } from 'node:fs'
import type { Database as DatabaseFile } from 'better-sqlite3'
import { type DurableFile, openDurableFile, writeAgain } from './durable-file.ts'

/** A thread that copies the write-ahead file of one database. */
export type Copier = {
  /**
   * Settles when all was copied that was there, or as much of it as can be, with the pages that the file has; it
   * never fails.
   */
  copy(): Promise<number>
  stop(): Promise<void>
}

export type WriteAhead = {
  /** To be awaited by each transaction before its first statement. */
  begun(): Promise<void> | undefined
  /** To be awaited after each commit: it is on the disk then. */
  wrote(): Promise<void> | undefined
  close(): Promise<void>
}

/** Pages after which SQLite copies all of it within a commit: 64 MiB, and 256 where another thread does it. */
const PAGES_MAX = 16_384
const PAGES_MAX_WITH_COPIER = 65_536

/** How often it is copied while something is written: as often as so many pages come together, and not before. */
const PACE = { minMs: 20, maxMs: 2_000, pages: 1_024 }
const PAGE_BYTES = 4_096

/** Without a copier SQLite does all of it by itself, within its commits. */
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
  /** A database that is hardly written needs no thread for it. */
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

  /** The sync under way or the last one, and the one that all share who wrote since it began. */
  let syncing: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /**
   * One at a time: of two that wait for the same pages only one hears that they could not be written. After a failed
   * one nobody knows what the disk has: this thread ends, and the next writes what is there anew.
   */
  function sync(): Promise<void> {
    next ??= syncing.then(() => {
      next = undefined
      syncing = durable.sync().catch((error: unknown) => {
        setImmediate(() => {
          throw error
        })
        // Nobody is told anything: neither that it is committed nor that it is not.
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
      await durable.close()
    },
  }
}

/**
 * Whoever wrote it before may have ended because the disk failed: behind what the disk does not have, nothing that
 * follows would be found after a power cut. Within a transaction, so that nobody else writes it.
 */
function writeAnew(file: DatabaseFile): void {
  file.exec('BEGIN IMMEDIATE')
  try {
    writeAgain(`${file.name}-wal`)
  } finally {
    file.exec('ROLLBACK')
  }
}
