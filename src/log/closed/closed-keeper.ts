/**
 * Moves closed orders from their table into runs (sorted files), and merges runs, while the partition is in use.
 * Another thread writes the new run, and one small transaction replaces the old rows or runs with it. Each step is
 * short; failed steps are retried.
 */

import { randomBytes } from 'node:crypto'
import { Fault } from '#domain/fault.ts'
import type { RowHome } from '../partition/record.ts'
import type { FileState } from '../partition/schema.ts'
import { sqliteFault } from '../partition/sqlite-fault.ts'
import type { MergeJob } from './closed-merge.ts'
import type { ClosedRun, RunMeta } from './closed-run.ts'
import type { ClosedTable } from './closed-table.ts'

/**
 * Limits of one step that removes table rows whose orders are in a run (a sorted file): at most `REMOVED_ROWS` rows,
 * with about `REMOVED_ORDERS` orders in total.
 */
const REMOVED_ROWS = 2_048
const REMOVED_ORDERS = 8_192

type KeeperPorts = {
  readonly table: ClosedTable
  readonly home: RowHome
  readonly database: string
  /** Writes the new file in another thread. */
  readonly merge: (job: MergeJob) => Promise<RunMeta | undefined>
  readonly state: () => FileState
  readonly transaction: (change: (state: FileState) => FileState) => void
}

type Job = {
  readonly name: string
  /**
   * `ids`: runs that the new run replaces. `id`: id of the new run. `spills`: true if the new run contains the frozen
   * rows of the table (rows that no longer change).
   */
  readonly ids: readonly number[]
  readonly id: number
  readonly spills: boolean
  result?: { readonly run: RunMeta | undefined } | { readonly failed: unknown }
}

export class ClosedKeeper {
  readonly #ports: KeeperPorts
  readonly #tailMax: number
  #job: Job | undefined
  #isClosed = false

  constructor(ports: KeeperPorts, tailMax: number) {
    this.#ports = ports
    this.#tailMax = tailMax
  }

  /**
   * Performs one step of the work on closed orders: moving rows into runs, and merging runs. Returns whether the next
   * step should follow immediately.
   */
  step(nowSec: number): boolean {
    const { table } = this.#ports
    if (this.#job?.result !== undefined) this.#finish(this.#job, this.#job.result)
    const removed = table.hasSpilled ? this.#removeSpilled() : 0
    const past = table.runs.past(nowSec)
    if (this.#job === undefined && past.length > 0) this.#replace(past, 0, undefined, false)
    if (this.#job === undefined) this.#begin(nowSec)
    return removed > 0
  }

  /** True while another thread writes a run for this partition. */
  get isBusy(): boolean {
    return this.#job !== undefined
  }

  /**
   * Call this when the partition's file is closed. If the other thread is still writing a run, the run is discarded
   * when it is complete.
   */
  close(): void {
    this.#isClosed = true
  }

  #begin(nowSec: number): void {
    const { table } = this.#ports
    const { runs } = table
    const isFull = table.isFrozen || table.size >= this.#tailMax
    const merge = isFull && !runs.isCrowded ? undefined : runs.nextMerge(nowSec)
    if (merge !== undefined) {
      const { ids, level, isOldest } = merge
      const source = { runs: merge.runs }
      this.#ask({ ids, id: Math.max(...ids), spills: false }, { level, isOldest, source, nowSec })
    } else if (isFull) {
      const { from, to } = table.freeze(this.#ports.state().closedRowLast)
      const source = { database: this.#ports.database, from, to }
      const isOldest = runs.count === 0
      const place = { ids: [], id: runs.nextId, spills: true }
      this.#ask(place, { level: 0, isOldest, source, nowSec })
    }
  }

  #ask(
    place: Pick<Job, 'ids' | 'id' | 'spills'>,
    what: Pick<MergeJob, 'level' | 'isOldest' | 'source' | 'nowSec'>,
  ): void {
    const { table, home, merge } = this.#ports
    const name = `run-${randomBytes(8).toString('hex')}`
    const seeds = [randomBytes(4).readInt32LE(), randomBytes(4).readInt32LE()] as const
    const job: Job = { ...place, name }
    this.#job = job
    merge({ ...what, folder: table.runs.folder, name, home, seeds }).then(
      (run) => {
        job.result = { run }
        if (this.#isClosed) table.runs.discard(name)
      },
      (error) => {
        job.result = { failed: error }
      },
    )
  }

  #finish(job: Job, result: NonNullable<Job['result']>): void {
    this.#job = undefined
    if ('failed' in result) throw result.failed
    this.#replace(job.ids, job.id, result.run, job.spills)
  }

  #replace(ids: readonly number[], id: number, run: RunMeta | undefined, spills: boolean): void {
    const { table, transaction } = this.#ports
    const opened = run === undefined ? undefined : this.#open(run)
    try {
      transaction((state) => ({
        ...state,
        closedSpilledTo: spills ? table.frozenTo : state.closedSpilledTo,
        runs: table.runs.replace(ids, id, run, state.runs),
      }))
    } catch (error) {
      opened?.close()
      throw error
    }
    table.runs.replaced(ids, id, opened)
    if (spills) table.spilled()
  }

  /**
   * Opens the new run before the transaction replaces the old data with it. If its file cannot be opened, the old data
   * stays in use.
   */
  #open(run: RunMeta): ClosedRun {
    const { runs } = this.#ports.table
    try {
      return runs.open(run)
    } catch (error) {
      runs.discard(run.name)
      const fault = sqliteFault('LOG_MERGE_FAILED', runs.folder, error)
      if (!(fault instanceof Fault)) throw error
      throw new Fault('LOG_MERGE_FAILED', fault.message, { retryable: true, cause: error })
    }
  }

  #removeSpilled(): number {
    const { table, transaction } = this.#ports
    let removed = 0
    transaction((state) => {
      const step = table.removeSpilled(REMOVED_ROWS, REMOVED_ORDERS, state.closed)
      removed = step.removed
      return { ...state, closed: step.closed }
    })
    if (removed === 0) table.spilledGone()
    return removed
  }
}
