/**
 * Copies SQLite's write-ahead file back into the database in another thread, so that the writing thread does not have
 * to. A batch changes pages all over the indexes. Copying back now and then, not after every batch, writes most pages
 * once instead of many times.
 *
 * The other thread cannot finish while something is being written. So it copies twice: first while the writer
 * continues, which leaves little; then the rest, before the next transaction writes anything. Then the file starts
 * over.
 *
 * A commit is on the disk before it is acknowledged, but the thread does not block for that: SQLite only writes, and
 * one of Node's file threads syncs the file.
 */

import { statSync } from 'node:fs'
import type { Database as DatabaseFile } from 'better-sqlite3'
import { type DurableFile, openDurableFile, writeAgain } from './durable-file.ts'

/** A thread that copies the write-ahead file of one database back. */
export type Copier = {
  /** Resolves with the number of pages in the file when as many as possible were copied. Never rejects. */
  copy(): Promise<number>
  stop(): Promise<void>
}

export type WriteAhead = {
  /** Await before the first statement of each transaction. */
  begun(): Promise<void> | undefined
  /** Await after each commit; the commit is then on the disk. */
  wrote(): Promise<void> | undefined
  close(): Promise<void>
}

/** Pages after which SQLite copies everything within a commit: 64 MiB, or 256 MiB if another thread copies. */
const PAGES_MAX = 16_384
const PAGES_MAX_WITH_COPIER = 65_536

/** A copy starts about every `pages` pages, at intervals between `minMs` and `maxMs`. */
const PACE = { minMs: 20, maxMs: 2_000, pages: 1_024 }
const PAGE_BYTES = 4_096

/** Without a copier, SQLite copies within its own commits. */
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
  /** A database with few writes needs no thread. */
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

  /** `syncing` is the current or last sync. `next` is the one after it, shared by all commits since `syncing` began. */
  let syncing: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /**
   * One sync at a time: if two wait for the same pages, only one receives the write error. After a failed sync the
   * state of the disk is unknown: this thread ends, and the next one writes the file again.
   */
  function sync(): Promise<void> {
    next ??= syncing.then(() => {
      next = undefined
      syncing = durable.sync().catch((error: unknown) => {
        setImmediate(() => {
          throw error
        })
        // Never settles: it is unknown whether the commit is durable.
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
 * The previous writer may have ended because the disk failed. A power cut would then lose everything after the missing
 * pages. Runs within a transaction, so that nothing else writes the file.
 */
function writeAnew(file: DatabaseFile): void {
  file.exec('BEGIN IMMEDIATE')
  try {
    writeAgain(`${file.name}-wal`)
  } finally {
    file.exec('ROLLBACK')
  }
}
