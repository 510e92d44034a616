/**
 * What a market thread does between batches, in short steps: it takes snapshots, truncates, forgets what
 * is long past and unloads markets that are over. Nothing here changes what a market answers, and
 * whatever fails is tried again another time.
 */

import { giveBack } from '#book/snapshot.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import { headChunk, OUTCOME_MARKS, PENDING_ROWS_MAX, pendingChunk, rowsOf } from '../snapshot.ts'
import { goAway, type Hosted, type MarketThread, type SnapshotJob } from './market-host.ts'

/** Orders that one step of a snapshot copies: a fraction of a millisecond. */
const SNAPSHOT_STEP_ORDERS = 512
/** Records that one step removes. */
const TRUNCATE_STEP = 5_000
/** Traders of closed markets that one step takes out of the index. */
const LEAVING_STEP = 2_000
/** A quiet market is snapshotted too once it keeps so many times `snapshotEvery` from truncation. */
const QUIET_TIMES = 4

/**
 * One short step of what can wait: a part of a snapshot, of a truncation or of forgetting. It must run
 * between batches. Answers whether there is more to do.
 */
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

/** What goes wrong is kept until the caller takes it, to tell it. */
export function takeTrouble(thread: MarketThread): string {
  const { trouble } = thread
  thread.trouble = ''
  return trouble
}

/** Faults after which the partition is as it was. */
const LEAVE_ALL: readonly string[] = [
  'LOG_SNAPSHOT_FAILED',
  'LOG_MERGE_FAILED',
  'LOG_ARCHIVE_FAILED',
]

/** What has been unloaded since the last time. */
export function takeGone(thread: MarketThread): readonly MarketId[] {
  const { gone } = thread
  thread.gone = []
  return gone
}

/**
 * Does what markets can go on without. A fault ends it for now, and is kept; it may have taken the
 * partition's file with it, so the file is opened again.
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

/** Stops the work in a partition until the next `tidy`. The other partitions continue. */
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

/** Forgetting first: it is short, and snapshots may never end. */
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

/** Rows of closed orders that one step looks at, and rows without an owner that one step removes. */
const FORGET_STEP = 2_000
const SWEEP_STEP = 500

function stepForgetting(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  const { more } = log.forgetClosed(partition, durableSec(thread, partition), FORGET_STEP)
  const swept = log.sweep(partition, SWEEP_STEP)
  if (!more && swept < SWEEP_STEP) thread.forgettable.delete(partition)
}

/**
 * By this clock the partition forgets. After a restart no time before it comes again, so nothing that
 * was forgotten can be placed a second time, whatever the machine's clock does.
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
  // Nothing may happen to the market between the head and the moment its books are held.
  const books = state.books.map((book) => book.beginSnapshot())
  const pending = rowsOf(state)
  thread.job = { hosted, writer, books, pending, copied: [], isEnding: false }
  hosted.eventsSinceSnapshot = 0
  writer.writeChunk(head)
}

/**
 * Hands over one chunk, or finishes. A market that goes on has its orders copied before they change, so
 * that at times more is copied than a step may hand over; it waits here.
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
  // These do not change, so they can wait for the books.
  const rows = job.pending.splice(0, PENDING_ROWS_MAX)
  if (rows.length > 0) job.writer.writeChunk(...pendingChunk(rows))
  else if (job.books.every((book) => book.done)) endSnapshot(thread, job)
}

/** The disk takes its time; meanwhile the job is there, and nothing is left to do for it. */
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

/** Markets that one step unloads. */
const UNLOAD_STEP = 10

/**
 * Looks, from time to time, for what may go: closed orders that are long past, records that the
 * database has, markets that are over. To be called between batches.
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
 * Unloads markets that are over: resolved, with every trade settled. Each gets a last snapshot, so
 * that its events can be truncated; once they are, nothing of it is left to replay, and it goes. Not
 * before its expiration, since only then no order for it can come again.
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
