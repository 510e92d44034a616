/**
 * Snapshots of a partition's markets, one file each. For each market, the newest snapshot that fits the log is used. An
 * unfinished or replaced file can be deleted at any time.
 */

import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { MarketId, Sequence } from '#domain/ids.ts'
import type { Snapshot, SnapshotMeta, SnapshotWriter } from '../event-log.ts'
import { syncFolder } from '../log-folder.ts'
import { corrupt, type RowHome } from '../partition/record.ts'
import {
  DRAFT,
  draftOf,
  type Named,
  nameOf,
  parseName,
  readChunks,
  readMeta,
} from './snapshot-format.ts'
import { FileWriter, removeSlowly } from './snapshot-writer.ts'

/**
 * `ahead`: the log ends before the snapshot's offset. `useless`: the market is unknown, or its first event is after
 * that offset. `fits`: in all other cases.
 */
type Fit = 'ahead' | 'useless' | 'fits'

export class SnapshotFiles {
  readonly #folder: string
  readonly #home: RowHome
  readonly #newest = new Map<MarketId, SnapshotMeta>()
  /**
   * `#useless`: files that are not needed. `#ahead`: snapshots after the end of the log. They must never be read,
   * because the log will reuse their offsets for other events.
   */
  readonly #useless: string[] = []
  readonly #ahead: string[] = []
  readonly #writers = new Set<FileWriter>()
  /** Resolves when the newest removal has ended. Each removal begins when the one before has ended. */
  #removing = Promise.resolve()

  /**
   * Finds, for each market, the newest snapshot that fits the log. Removes no file; `removeUseless` does so
   * later.
   */
  constructor(folder: string, home: RowHome, fitOf: (named: Named) => Fit) {
    this.#folder = folder
    this.#home = home
    mkdirSync(folder, { recursive: true })
    // Sync the folders, because a rename by an earlier process may not be durable yet. The log deletes events that a
    // snapshot replaces, so the snapshot must be durable first.
    syncFolder(dirname(folder))
    syncFolder(folder)
    const newest = new Map<MarketId, Named>()
    for (const name of readdirSync(folder)) {
      const named = parseName(name)
      if (named === undefined) {
        if (name.endsWith(DRAFT)) this.#useless.push(name)
        continue
      }
      const fit = fitOf(named)
      if (fit === 'ahead') this.#ahead.push(name)
      else if (fit === 'useless') this.#useless.push(name)
      else {
        const other = newest.get(named.marketId)
        const isNewer = other === undefined || other.atOffset < named.atOffset
        if (isNewer) newest.set(named.marketId, named)
        const older = isNewer ? other : named
        if (older !== undefined) this.#useless.push(nameOf(older))
      }
    }
    for (const named of newest.values()) {
      const path = join(folder, nameOf(named))
      const meta = readMeta(path, home)
      if (nameOf(meta) !== nameOf(named))
        throw corrupt(`the name of ${path} does not match the market and offset in the file`)
      this.#newest.set(meta.marketId, meta)
    }
  }

  /**
   * Removes unused files. Call it only after the whole partition has passed its checks. If a check fails, the partition
   * is not opened, and all its files stay for an examination.
   */
  removeUseless(): void {
    for (const name of this.#ahead) rmSync(join(this.#folder, name))
    for (const name of this.#useless) removeIfPossible(join(this.#folder, name))
    syncFolder(this.#folder)
  }

  get(marketId: MarketId): SnapshotMeta | undefined {
    return this.#newest.get(marketId)
  }

  all(): SnapshotMeta[] {
    return [...this.#newest.values()]
  }

  read(marketId: MarketId): Snapshot | undefined {
    const meta = this.#newest.get(marketId)
    if (meta === undefined) return undefined
    return { meta, chunks: readChunks(join(this.#folder, nameOf(meta)), this.#home, meta) }
  }

  begin(marketId: MarketId, atOffset: number, seq: Sequence): SnapshotWriter {
    const writer = new FileWriter(this.#folder, this.#home, { marketId, atOffset, seq }, (meta) => {
      const old = this.#newest.get(marketId)
      if (old !== undefined && old.atOffset > atOffset) return
      this.#newest.set(marketId, meta)
      if (old !== undefined && old.atOffset < atOffset) this.#discard(old)
    })
    this.#writers.add(writer)
    void writer.ended.then(() => this.#writers.delete(writer))
    return writer
  }

  /** Removes the snapshot of a market that has ended. */
  remove(marketId: MarketId): void {
    for (const writer of this.#writers) if (writer.marketId === marketId) writer.abort()
    const meta = this.#newest.get(marketId)
    this.#newest.delete(marketId)
    if (meta !== undefined) this.#discard(meta)
  }

  /** Aborts snapshots in progress; resolves when they have ended. */
  async close(): Promise<void> {
    const writers = [...this.#writers]
    for (const writer of writers) writer.abort()
    for (const writer of writers) await writer.ended
    await this.#removing
  }

  /** Removes the file of a snapshot. If that fails, the next open of the partition removes it. */
  #discard(meta: SnapshotMeta): void {
    const path = join(this.#folder, nameOf(meta))
    const draft = join(this.#folder, draftOf(meta))
    this.#removing = this.#removing
      .then(() => rename(path, draft))
      .then(() => removeSlowly(draft))
      .catch(() => undefined)
  }
}

/** Removes a file if possible. An unneeded file does no harm, and the next open of the partition removes it. */
function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
  }
}
