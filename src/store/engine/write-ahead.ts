/**
 * Copies the write-ahead file of SQLite back into the database, most of it in another thread, so that the
 * thread that writes is not kept by it. A batch changes pages all over the indexes: copying them back now and then,
 * not after every batch, writes most of them once instead of many times.
 *
 * The other thread copies without a lock, and so never gets to the end while something is written. It leaves little;
 * the writer copies that, and the file starts over.
 */

import { statSync } from 'node:fs'
import type { Database as DatabaseFile } from 'better-sqlite3'

/** A thread that copies the write-ahead file of one database. */
export type Copier = {
  ask(): void
  /** How many times it has ended. */
  ended(): number
  stop(): Promise<void>
}

export type WriteAhead = {
  /** To be called after each commit. */
  wrote(): void
  close(): Promise<void>
}

/** Pages after which SQLite copies all of it within a commit: 64 MiB, and 256 where another thread does it. */
const PAGES_MAX = 16_384
const PAGES_MAX_WITH_COPIER = 65_536

/** How often it is copied while something is written: as often as so many pages come together, and not before. */
const PACE = { minMs: 20, maxMs: 2_000, pages: 1_024 }
const PAGE_BYTES = 4_096

/** When the writer gets to it later than that, too much may have been written since: it is copied again before. */
const LATE_MS = 50

/** Without a copier SQLite does it by itself. */
export function keepWriteAhead(
  file: DatabaseFile,
  copier: Copier | undefined,
  { minMs, maxMs, pages } = PACE,
): WriteAhead {
  file.pragma(`wal_autocheckpoint = ${copier === undefined ? PAGES_MAX : PAGES_MAX_WITH_COPIER}`)
  if (copier === undefined) return { wrote: () => {}, close: async () => {} }
  let ended = copier.ended()
  let isAsked = false
  let isDue = false
  let dueMs = 0
  let doneMs = performance.now()
  let everyMs = minMs
  /** A database that is hardly written needs no thread for it. */
  let isLarge = false

  function hasGrown(): boolean {
    const { size } = statSync(`${file.name}-wal`, { throwIfNoEntry: false }) ?? { size: 0 }
    return size >= pages * PAGE_BYTES
  }

  function copyRest(): void {
    isDue = false
    // Another transaction may have begun: then after that one.
    if (!file.open || file.inTransaction) return
    ended = copier?.ended() ?? 0
    if (performance.now() - dueMs > LATE_MS) {
      copier?.ask()
      return
    }
    isAsked = false
    doneMs = performance.now()
    try {
      // It waits for nobody: what a reader keeps it from copying is copied the next time.
      const [{ log }] = file.pragma('wal_checkpoint(PASSIVE)') as [{ log: number }]
      everyMs = Math.max(minMs, Math.min(maxMs, (everyMs * pages) / Math.max(1, log)))
    } catch (error) {
      // What is committed stays where it is. If the disk is full, the next commit says so.
      if (!isOfSqlite(error)) throw error
    }
  }

  return {
    wrote() {
      if (!isAsked) {
        if (performance.now() - doneMs < everyMs) return
        isLarge ||= hasGrown()
        if (!isLarge) {
          doneMs = performance.now()
          return
        }
        isAsked = true
        copier.ask()
      } else if (!isDue && copier.ended() !== ended) {
        isDue = true
        dueMs = performance.now()
        // In a turn of its own, because it takes as long as a transaction.
        setImmediate(copyRest)
      }
    },
    close: () => copier.stop(),
  }
}

function isOfSqlite(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_')
}
