/**
 * Checks whether the database keeps up with the log. Settlement reads its trades from the database, so it misses trades
 * that the database does not have yet. If the oldest event that is not in the database is older than the maximum lag,
 * the partition’s markets accept cancels only. This concerns only markets on chains whose settlement reads from the
 * database.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketThread } from './market-host.ts'

/** Offset of a mark that was made before the store reported the position of the database. */
const UNREPORTED = -1

/**
 * Change of a partition's state: from now on, the database lags by more than the maximum (`behind`), or it
 * has caught up. `lagMs` is the lag.
 */
type ProjectionUpdate = {
  readonly partition: number
  readonly behind: boolean
  readonly lagMs: number
}

/** Measures the lag of the database for each partition. Returns the partitions that became late or have caught up. */
export function watchProjection(thread: MarketThread, nowMs: number): ProjectionUpdate[] {
  const { lag, log } = thread.options
  const news: ProjectionUpdate[] = []
  if (lag === undefined) return news
  for (const partition of log.owned) {
    if (thread.away.has(partition)) continue
    const lagMs = knownLag(thread, partition, nowMs, lag.maxMs)
    if (lagMs === undefined) continue
    const behind = lagMs > lag.maxMs
    if (behind === thread.late.has(partition)) continue
    if (behind) thread.late.add(partition)
    else thread.late.delete(partition)
    news.push({ partition, behind, lagMs })
  }
  return news
}

/**
 * Returns the lag in milliseconds; undefined if the log cannot be read now. The caller then keeps the last known state.
 */
function knownLag(...asked: Parameters<typeof lagOf>): number | undefined {
  try {
    return lagOf(...asked)
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    return undefined
  }
}

function lagOf(thread: MarketThread, partition: number, nowMs: number, maxMs: number): number {
  const { log } = thread.options
  const end = log.lastOffset(partition)
  const projected = thread.projected.get(partition)
  const mark = thread.marks.get(partition)
  if (projected === undefined) {
    if (mark !== undefined) return end === 0 ? 0 : nowMs - mark.afterMs
    thread.marks.set(partition, { offset: UNREPORTED, atMs: nowMs, afterMs: nowMs })
    return 0
  }
  if (projected >= end) {
    thread.marks.set(partition, { offset: end, atMs: nowMs, afterMs: nowMs })
    return 0
  }
  let afterMs = mark?.afterMs ?? Number.NEGATIVE_INFINITY
  if (mark === undefined || mark.offset <= projected) {
    // The age of records that were written before this thread started is unknown. `NEGATIVE_INFINITY` makes the code
    // below read the age of the oldest unprojected record from the log.
    const isFirst = mark === undefined || mark.offset === UNREPORTED
    afterMs = isFirst ? Number.NEGATIVE_INFINITY : mark.atMs
    thread.marks.set(partition, { offset: end, atMs: nowMs, afterMs })
  }
  if (nowMs - afterMs <= maxMs) return nowMs - afterMs
  const [oldest] = log.read(partition, projected + 1, 1)
  return oldest === undefined ? 0 : nowMs - oldest.event.atMs
}
