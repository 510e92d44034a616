/**
 * The runs (sorted files of closed orders) of a partition by age, and the choice of the runs to merge. The table
 * `closed_runs` names the runs; files that it does not name are unused. If several runs have a hash, the newest run
 * counts.
 */

import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type BetterSqlite3 from 'better-sqlite3'
import { corrupt, type RowHome, rowCrc } from '../partition/record.ts'
import { checkTally, EMPTY, minus, plus, type Tally } from '../partition/schema.ts'
import { removeSlowly } from '../snapshots/snapshot-writer.ts'
import { forgetAfterSecAt, type HashKey } from './closed-order.ts'
import { ClosedRun, type RunMeta } from './closed-run.ts'

/**
 * Number of runs of one level that are merged into one run of the next level. If these runs have more orders than fit
 * into one run, two runs are merged instead.
 */
const FAN_IN = 4
/**
 * If at least this share of a run's orders are past their `forgetAfterSec`, the run is written again without these
 * orders.
 */
const FORGOTTEN_SHARE = 0.5

export type RunsOptions = {
  /**
   * Maximum size in bytes of all filters in memory. If the filters need more, those of the oldest runs are read from
   * disk on demand.
   */
  readonly filterBytesMax: number
  /** Maximum number of orders in a run. */
  readonly runOrdersMax: number
}

/** Runs to merge. The new run gets the id of the newest of these runs, and with it that run's position by age. */
type RunMerge = {
  readonly ids: readonly number[]
  /** Newest first. */
  readonly runs: readonly RunMeta[]
  readonly level: number
  readonly isOldest: boolean
}

type Row = { id: number; json: string; crc: number }
type Open = { readonly id: number; readonly crc: number; readonly run: ClosedRun }

export class ClosedRuns {
  readonly folder: string
  readonly #home: RowHome
  readonly #options: RunsOptions
  readonly #insert: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement
  /** Newest first. */
  #runs: Open[] = []
  #removing = Promise.resolve()

  constructor(
    db: BetterSqlite3.Database,
    { folder, home }: { readonly folder: string; readonly home: RowHome },
    stated: Tally,
    options: RunsOptions,
  ) {
    this.folder = folder
    this.#home = home
    this.#options = options
    this.#insert = db.prepare('INSERT INTO closed_runs VALUES (?, ?, ?)')
    this.#delete = db.prepare('DELETE FROM closed_runs WHERE id = ?')
    let found = EMPTY
    const rows = db.prepare('SELECT id, json, crc FROM closed_runs ORDER BY id DESC').all() as Row[]
    for (const { id, json, crc } of rows) {
      if (this.#crc(id, json) !== crc)
        throw corrupt(`${folder}: the row of run ${id} of closed orders is damaged`)
      found = plus(found, crc)
    }
    checkTally(found, stated, 'runs of closed orders', folder)
    mkdirSync(folder, { recursive: true })
    try {
      for (const { id, json, crc } of rows) {
        const left = options.filterBytesMax - this.filterBytes
        this.#runs.push({ id, crc, run: this.#open(JSON.parse(json) as RunMeta, left) })
      }
    } catch (error) {
      this.close()
      throw error
    }
  }

  /**
   * Removes unused files. Call it after the whole partition has passed its checks: if the partition is refused, all its
   * files stay for an examination.
   */
  removeUseless(): void {
    const named = new Set(this.#runs.map(({ run }) => run.meta.name))
    for (const name of readdirSync(this.folder)) {
      if (!named.has(name)) rmSync(join(this.folder, name), { force: true })
    }
  }

  get count(): number {
    return this.#runs.length
  }

  /** Number of orders in all runs, including orders that are past their `forgetAfterSec`. */
  get orders(): number {
    return this.#runs.reduce((sum, { run }) => sum + run.meta.orders, 0)
  }

  get filterBytes(): number {
    return this.#runs.reduce((sum, { run }) => sum + run.filterBytes, 0)
  }

  get memoryBytes(): number {
    return this.#runs.reduce((sum, { run }) => sum + run.memoryBytes, 0)
  }

  /**
   * Returns the entry of the newest run that has the hash. Returns undefined if no run has the hash, or if the order is
   * past its `forgetAfterSec`.
   */
  find(key: HashKey, nowSec: number): Buffer | undefined {
    for (const { run } of this.#runs) {
      const bytes = run.find(key)
      if (bytes === undefined) continue
      return forgetAfterSecAt(bytes, 0) < nowSec ? undefined : bytes
    }
    return undefined
  }

  /** Reads all runs; throws if one is damaged. */
  check(): void {
    for (const { run } of this.#runs) run.check()
  }

  /** Returns an id for a new run, higher than the ids of all other runs. */
  get nextId(): number {
    return (this.#runs[0]?.id ?? 0) + 1
  }

  /** Returns the ids of runs in which every order is past its `forgetAfterSec`. */
  past(nowSec: number): number[] {
    return this.#runs
      .filter(({ run }) => run.meta.forgetAfterSec.at(-1)! < nowSec)
      .map(({ id }) => id)
  }

  /**
   * True if there are at least `2 * FAN_IN` runs of level 0, so that runs should be merged before another is
   * added.
   */
  get isCrowded(): boolean {
    return this.#runs.filter(({ run }) => run.meta.level === 0).length >= 2 * FAN_IN
  }

  /** Returns the next merge to do; undefined if no merge is worthwhile at present. */
  nextMerge(nowSec: number): RunMerge | undefined {
    const half = this.#runs.find(({ run }) => forgottenShare(run.meta, nowSec) >= FORGOTTEN_SHARE)
    if (half !== undefined) return this.#mergeOf([half], half.run.meta.level)
    for (const width of [FAN_IN, 2]) {
      for (let to = this.#runs.length; to >= width; to--) {
        const window = this.#runs.slice(to - width, to)
        const { level } = window[0]!.run.meta
        const alike = window.every(({ run }) => run.meta.level === level)
        if (alike && this.#isWorthMerging(window, level)) return this.#mergeOf(window, level + 1)
      }
    }
    return undefined
  }

  /**
   * Returns whether to merge these runs. Together they must fit into one run, and the partition must have at least
   * `FAN_IN` runs of this level.
   */
  #isWorthMerging(window: readonly Open[], level: number): boolean {
    const orders = window.reduce((sum, { run }) => sum + run.meta.orders, 0)
    if (orders > this.#options.runOrdersMax) return false
    const ofLevel = this.#runs.filter(({ run }) => run.meta.level === level).length
    return ofLevel >= FAN_IN
  }

  #mergeOf(window: readonly Open[], level: number): RunMerge {
    return {
      ids: window.map(({ id }) => id),
      runs: window.map(({ run }) => run.meta),
      level,
      isOldest: window.at(-1) === this.#runs.at(-1),
    }
  }

  /** Replaces runs in the table by one run or none, within the caller's transaction; returns the new tally. */
  replace(ids: readonly number[], id: number, run: RunMeta | undefined, runs: Tally): Tally {
    let tally = runs
    for (const each of this.#runs) {
      if (!ids.includes(each.id)) continue
      this.#delete.run(each.id)
      tally = minus(tally, each.crc)
    }
    if (run === undefined) return tally
    const json = JSON.stringify(run)
    const crc = this.#crc(id, json)
    this.#insert.run(id, json, crc)
    return plus(tally, crc)
  }

  /** Applies a replacement of runs to the list in memory, after the replacement is durable in the table. */
  replaced(ids: readonly number[], id: number, run: ClosedRun | undefined): void {
    const old = this.#runs.filter((each) => ids.includes(each.id))
    let left = this.#runs.filter((each) => !ids.includes(each.id))
    if (run !== undefined) {
      const crc = this.#crc(id, JSON.stringify(run.meta))
      left = [...left, { id, crc, run }].sort((a, b) => b.id - a.id)
    }
    this.#runs = left
    for (const { run: each } of old) {
      each.close()
      this.discard(each.meta.name)
    }
    let kept = 0
    for (const each of this.#runs) {
      kept += each.run.filterBytes
      if (kept > this.#options.filterBytesMax) each.run.leaveFilter()
    }
  }

  /** Removes an unused file; if that fails, the next open of the partition removes it. */
  discard(name: string): void {
    this.#removing = this.#removing
      .then(() => removeSlowly(join(this.folder, name)))
      .catch(() => undefined)
  }

  close(): void {
    for (const { run } of this.#runs) run.close()
    this.#runs = []
  }

  /** Resolves when no removal is in progress. */
  async ended(): Promise<void> {
    await this.#removing
  }

  /**
   * Opens a new run. The caller closes it, or passes it to `replaced`, which frees the oldest filters to make room for
   * the new one.
   */
  open(meta: RunMeta): ClosedRun {
    return this.#open(meta, this.#options.filterBytesMax)
  }

  #open(meta: RunMeta, filterBytesMax: number): ClosedRun {
    const keepsFilter = 4 * meta.filterWords <= filterBytesMax
    return new ClosedRun(join(this.folder, meta.name), this.#home, meta, { keepsFilter })
  }

  #crc(id: number, json: string): number {
    return rowCrc('closed_runs', this.#home, [id, json])
  }
}

function forgottenShare({ forgetAfterSec }: RunMeta, nowSec: number): number {
  return forgetAfterSec.filter((sec) => sec < nowSec).length / forgetAfterSec.length
}
