/**
 * Writes the events of the log that a database lacks. The database may be empty or older than the log. Events that are
 * no longer in the log are read from the archive. Rows and checkpoints are written in the same way as by the store, so
 * a rebuild may be interrupted at any moment and started again. It may run beside an exchange.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { derive, withinRows } from '#services/projector/projector.ts'
import type { Database } from '#store/engine/database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { endOrders, marketsToEnd } from '#store/projection/end-orders.ts'
import { project } from '#store/projection/project.ts'

/** Number of events between two lines of progress. */
const PROGRESS_EVENTS = 100_000

type RebuildOptions = {
  /** The log with its archive. */
  readonly log: LogReader<MarketEvent>
  readonly database: Database
  readonly say: (line: string) => void
  /** Stops the rebuild between two batches. */
  readonly signal?: AbortSignal
}

/**
 * Writes the events that the database lacks. Returns how many were written, and whether the end of the log was reached.
 */
export async function rebuild(
  options: RebuildOptions,
): Promise<{ readonly events: number; readonly ended: boolean }> {
  const { log, database, say, signal } = options
  const known = await checkpoints(database)
  const from = Array.from(
    { length: log.partitions },
    (_, partition) => known.find((each) => each.partition === partition)?.offset ?? 0,
  )
  checkReach(log, from)
  await claimLog(database, { logId: log.id, partitions: log.partitions })
  let events = 0
  for (const [partition, offset] of from.entries()) {
    const last = log.lastOffset(partition)
    if (last === offset) continue
    say(
      `partition ${partition}: writing ${last - offset} events, from offset ${offset + 1} to ${last}`,
    )
    events += await replay(options, partition, { from: offset, to: last })
    if (signal?.aborted === true) return { events, ended: false }
  }
  await endAllOrders(database)
  return { events, ended: true }
}

/**
 * Throws if the database cannot be brought up to the end of `log` (the log with its archive). There are two possible
 * reasons. Events after the database's last offset are missing from `log`, or `log` ends before that offset. Call it
 * before anything is written.
 */
export function checkReach(log: LogReader<MarketEvent>, from: readonly number[]): void {
  const missing: string[] = []
  for (const [partition, offset] of from.entries()) {
    const last = log.lastOffset(partition)
    const first = log.firstOffset(partition)
    if (offset > last) {
      missing.push(
        `partition ${partition}: the database has offset ${offset}, but the log ends at ${last}; ` +
          'the log is older than the database',
      )
    } else if (offset + 1 < first && offset < last) {
      missing.push(
        `partition ${partition}: the database ends at offset ${offset}, the log with its archive ` +
          `begins at ${first}: offsets ${offset + 1} to ${first - 1} are missing`,
      )
    }
  }
  if (missing.length > 0) {
    throw new Fault('REBUILD_IMPOSSIBLE', missing.join('; '), { retryable: false })
  }
}

async function replay(
  { log, database, say, signal }: RebuildOptions,
  partition: number,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<number> {
  let at = from
  let reportedTo = from
  while (at < to && signal?.aborted !== true) {
    const records = log.read(partition, at + 1, Math.min(PROJECTION_ROWS_MAX, to - at))
    const events = withinRows(records.map(({ event }) => event))
    const { offset } = await project(database, derive(log.id, partition, at, events))
    at = offset
    if (at - reportedTo >= PROGRESS_EVENTS && at < to) {
      reportedTo = at
      say(`partition ${partition}: at offset ${at} of ${to}`)
    }
  }
  return Math.max(0, at - from)
}

/** Marks orders as ended in the database if they were open when their market closed. The store does the same. */
async function endAllOrders(database: Database): Promise<void> {
  let after: MarketId | undefined
  do {
    const { marketIds, next } = await marketsToEnd(database, after)
    for (const marketId of marketIds) while (await endOrders(database, marketId)) {}
    after = next
  } while (after !== undefined)
}
