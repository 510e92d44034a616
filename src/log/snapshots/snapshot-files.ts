/**
 * The snapshots of a partition's markets, each a file of its own, of which the newest that fits the log
 * counts. A draft, or a file that a newer one has replaced, can go at any time.
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

/** Whether the log has what a snapshot stands for: it ends before it, knows nothing of it, or does. */
type Fit = 'ahead' | 'useless' | 'fits'

export class SnapshotFiles {
  readonly #folder: string
  readonly #home: RowHome
  readonly #newest = new Map<MarketId, SnapshotMeta>()
  /** What was found and is not needed, and the part of it that must never be read again. */
  readonly #useless: string[] = []
  readonly #ahead: string[] = []
  readonly #writers = new Set<FileWriter>()
  /** The last of the files to be removed, one after the other. */
  #removing = Promise.resolve()

  /** Finds the newest snapshot of each market that fits the log, and changes nothing. */
  constructor(folder: string, home: RowHome, fitOf: (named: Named) => Fit) {
    this.#folder = folder
    this.#home = home
    mkdirSync(folder, { recursive: true })
    // Names that an earlier run gave may not be on the disk yet, and truncation will rely on them.
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
      if (nameOf(meta) !== nameOf(named)) throw corrupt(`${path} is of another market or time`)
      this.#newest.set(meta.marketId, meta)
    }
  }

  /** To be called once all of the partition was found in order: what is refused stays as it is. */
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

  /** The market is over: it needs none any more. */
  remove(marketId: MarketId): void {
    for (const writer of this.#writers) if (writer.marketId === marketId) writer.abort()
    const meta = this.#newest.get(marketId)
    this.#newest.delete(marketId)
    if (meta !== undefined) this.#discard(meta)
  }

  /** Ends what is being written; settles when nothing of it is under way. */
  async close(): Promise<void> {
    const writers = [...this.#writers]
    for (const writer of writers) writer.abort()
    for (const writer of writers) await writer.ended
    await this.#removing
  }

  /** What stays behind, whatever the reason, goes when the partition is opened again. */
  #discard(meta: SnapshotMeta): void {
    const path = join(this.#folder, nameOf(meta))
    const draft = join(this.#folder, draftOf(meta))
    this.#removing = this.#removing
      .then(() => rename(path, draft))
      .then(() => removeSlowly(draft))
      .catch(() => undefined)
  }
}

/** A file that is not needed does no harm either, and the next open tries again. */
function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
  }
}
