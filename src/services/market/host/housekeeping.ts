/**
 * Work of a market thread between batches, in short steps: snapshots, truncation, forgetting old orders, unloading
 * ended markets. None of this work changes an answer, and a failed step is retried later.
 */

import { giveBack } from '#book/snapshot.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import { headChunk, OUTCOME_MARKS, PENDING_ROWS_MAX, pendingChunk, rowsOf } from '../snapshot.ts'
import { goAway, type Hosted, type MarketThread, type SnapshotJob } from './market-host.ts'

/** Maximum number of orders that one snapshot step copies; this takes a fraction of a millisecond. */
const SNAPSHOT_STEP_ORDERS = 512
/** Maximum number of log records that one step removes. */
const TRUNCATE_STEP = 5_000
/** Maximum number of traders of closed markets that one step removes from the index. */
const LEAVING_STEP = 2_000
/**
 * A market with few events rarely gets a snapshot, so its records cannot be truncated. If the log keeps `QUIET_TIMES *
 * snapshotEvery` records because of one market, that market gets a snapshot.
 */
const QUIET_TIMES = 4

/** Does one step of housekeeping between batches; returns whether more steps remain. */
export function housekeep(thread: MarketThread): boolean {
  if (thread.committing) return true
  thread.traders.step(LEAVING_STEP)
  const next = nextStep(thread)
  if (next !== undefined) attempt(thread, next.partition, next.step)
  return hasHousework(thread)
}

export function hasHousework(thread: MarketThread): boolean {
  const { job, due, truncatable, forgettable, traders } = thread
  if (job !== undefined || traders.isLeaving) return true
  const hasDue = due.size > 0 && thread.options.room?.isFull !== true
  return hasDue || truncatable.size > 0 || forgettable.size > 0
}

/** Returns the reason of the last failure of housekeeping, and forgets it. */
export function takeTrouble(thread: MarketThread): string {
  const { trouble } = thread
  thread.trouble = ''
  return trouble
}

/** Codes of faults that leave the partition unchanged, so that its file need not be opened again. */
const LEAVE_ALL: readonly string[] = [
  'LOG_SNAPSHOT_FAILED',
  'LOG_MERGE_FAILED',
  'LOG_ARCHIVE_FAILED',
]

/** Returns the markets unloaded since the last call. */
export function takeGone(thread: MarketThread): readonly MarketId[] {
  const { gone } = thread
  thread.gone = []
  return gone
}

/**
 * Runs one step of housekeeping. A fault stops housekeeping in the partition until the next `tidy`, and is reported by
 * `takeTrouble`. The fault may have closed the partition’s file, so the file is opened again.
 */
function attempt(thread: MarketThread, partition: number, work: () => void): void {
  try {
    work()
    return
  } catch (error) {
    giveUp(thread, partition, error)
    if (LEAVE_ALL.includes((error as Fault).code)) return
    if (!(error as Fault).retryable) throw error
  }
  try {
    thread.options.log.reopen(partition)
  } catch (error) {
    goAway(thread, partition, error)
  }
}

/** Stops housekeeping in a partition until the next `tidy`. The other partitions continue. */
function giveUp(thread: MarketThread, partition: number, error: unknown): void {
  if (!(error instanceof Fault)) throw error
  thread.trouble = error.message
  const { job, due, markets } = thread
  if (job?.hosted.partition === partition) {
    for (const book of job.books) book.abandon()
    job.writer.abort()
    thread.job = undefined
  }
  for (const marketId of due) {
    if (markets.get(marketId)?.partition === partition) due.delete(marketId)
  }
  thread.truncatable.delete(partition)
  thread.forgettable.delete(partition)
}

type Step = { readonly partition: number; readonly step: () => void }

/**
 * Returns the next step of housekeeping. Forgetting old orders comes first, because it is short, while snapshots may
 * take long.
 */
function nextStep(thread: MarketThread): Step | undefined {
  const { job, due } = thread
  const [forgettable] = thread.forgettable
  if (forgettable !== undefined) {
    return { partition: forgettable, step: () => stepForgetting(thread, forgettable) }
  }
  if (job !== undefined) {
    return { partition: job.hosted.partition, step: () => stepSnapshot(thread, job) }
  }
  for (const marketId of thread.options.room?.isFull === true ? [] : due) {
    due.delete(marketId)
    const hosted = thread.markets.get(marketId)
    if (hosted === undefined) continue
    return { partition: hosted.partition, step: () => beginSnapshot(thread, hosted) }
  }
  const [truncatable] = thread.truncatable
  if (truncatable === undefined) return undefined
  return { partition: truncatable, step: () => stepTruncation(thread, truncatable) }
}

/** Limits per step: rows of closed orders to examine, and trade statuses of retired markets to remove. */
const FORGET_STEP = 2_000
const SWEEP_STEP = 500

function stepForgetting(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  const { more } = log.forgetClosed(partition, durableSec(thread, partition), FORGET_STEP)
  const swept = log.sweep(partition, SWEEP_STEP)
  if (!more && swept < SWEEP_STEP) thread.forgettable.delete(partition)
}

/**
 * Returns the time of the latest batch in the partition's log, in seconds. This time decides which closed orders have
 * expired and are forgotten. It never goes back, not even after a restart. So a forgotten order cannot be placed again,
 * whatever the machine’s clock does.
 */
function durableSec(thread: MarketThread, partition: number): number {
  return Math.floor(thread.options.log.state(partition).lastMs / 1_000)
}

function stepTruncation(thread: MarketThread, partition: number): void {
  const { log, snapshotEvery, retention } = thread.options
  const floor = log.truncationFloor(partition)
  const projected = thread.projected.get(partition) ?? 0
  const unneeded = Math.min(floor.offset, projected + 1)
  const aged = retention?.look(log, partition, unneeded) ?? { below: unneeded, more: false }
  const { more } = log.truncate(partition, aged.below, projected, TRUNCATE_STEP)
  if (more || aged.more) return
  thread.truncatable.delete(partition)
  const kept = log.state(partition).lastOffset - floor.offset
  if (floor.marketId !== undefined && kept >= QUIET_TIMES * snapshotEvery) {
    thread.due.add(floor.marketId)
  }
}

function beginSnapshot(thread: MarketThread, hosted: Hosted): void {
  const { state, partition } = hosted
  const { log } = thread.options
  const { lastOffset } = log.state(partition)
  const writer = log.beginSnapshot(partition, state.market.id, lastOffset, state.seq)
  const head = headChunk(state)
  // The snapshot's head, books and rows must show the same state: take all three before the market changes.
  const books = state.books.map((book) => book.beginSnapshot())
  const pending = rowsOf(state)
  thread.job = { hosted, writer, books, pending, copied: [], isEnding: false }
  hosted.eventsSinceSnapshot = 0
  writer.writeChunk(head)
}

/**
 * Writes one chunk of the snapshot, or finishes the snapshot. Commands also cause copies, because an order is copied
 * before a command changes it. So there may be more copied chunks than this step writes. The others wait in
 * `job.copied`.
 */
function stepSnapshot(thread: MarketThread, job: SnapshotJob): void {
  if (job.isEnding || !job.writer.isReady()) return
  for (const outcome of OUTCOMES) {
    const book = job.books[outcome]
    if (job.copied.length > 0 || book === undefined || book.done) continue
    for (const chunk of book.copySome(SNAPSHOT_STEP_ORDERS)) job.copied.push({ outcome, chunk })
  }
  const next = job.copied.shift()
  if (next !== undefined) {
    job.writer.writeChunk(OUTCOME_MARKS[next.outcome]!, next.chunk)
    giveBack(next.chunk)
    return
  }
  // `job.pending` was read when the snapshot began and does not change, so its rows can be written after the books.
  const rows = job.pending.splice(0, PENDING_ROWS_MAX)
  if (rows.length > 0) job.writer.writeChunk(...pendingChunk(rows))
  else if (job.books.every((book) => book.done)) endSnapshot(thread, job)
}

/**
 * Starts to finish the snapshot file. The job needs no further steps, but it stays the thread’s job until the file is
 * on the disk.
 */
function endSnapshot(thread: MarketThread, job: SnapshotJob): void {
  job.isEnding = true
  job.writer.commit().then(
    (meta) => {
      if (thread.job !== job) return
      thread.job = undefined
      job.hosted.snapshot = meta
      thread.truncatable.add(job.hosted.partition)
    },
    (error) => {
      if (thread.job === job) giveUp(thread, job.hosted.partition, error)
    },
  )
}

/** Maximum number of markets that one step unloads. */
const UNLOAD_STEP = 10

/**
 * Finds closed orders to forget and log records to truncate, unloads ended markets, and shrinks books that have lost
 * their last order. Called from time to time, between batches.
 */
export function tidy(thread: MarketThread): void {
  for (const { home } of thread.traders.takeEmptied()) {
    home.hosted.state.books[home.outcome].shrink()
  }
  for (const partition of thread.options.log.owned) {
    if (thread.committing) return
    if (thread.away.has(partition)) continue
    attempt(thread, partition, () => unload(thread, partition))
    if (thread.away.has(partition)) continue
    thread.forgettable.add(partition)
    const projected = thread.projected.get(partition) ?? 0
    if (projected >= thread.options.log.state(partition).firstOffset) {
      thread.truncatable.add(partition)
    }
  }
}

/**
 * Unloads ended markets. A market has ended if it is resolved, every trade is settled, and its expiration has passed.
 * Before the expiration, orders may still arrive. Each market first gets a last snapshot, so that its events can be
 * truncated. The market is unloaded once its events are truncated.
 */
function unload(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  const nowSec = durableSec(thread, partition)
  let unloaded = 0
  for (const hosted of thread.over) {
    const { state, snapshot } = hosted
    const marketId = state.market.id
    if (hosted.partition !== partition || state.unsettled > 0) continue
    if (state.market.expiration > nowSec || thread.job?.hosted === hosted) continue
    if (snapshot?.seq !== state.seq) {
      thread.due.add(marketId)
    } else if (log.state(partition).firstOffset > snapshot.atOffset) {
      log.retireMarket(partition, marketId)
      thread.markets.delete(marketId)
      thread.over.delete(hosted)
      thread.due.delete(marketId)
      thread.gone.push(marketId)
      if (++unloaded === UNLOAD_STEP) return
    }
  }
}
