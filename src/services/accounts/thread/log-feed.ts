/**
 * Feeds an accounts thread with the events of all markets’ logs, one turn at a time, starting at the position that the
 * database has reached.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import type { LogEnds } from '#log/server/log-ends.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { AccountsProtocol } from '../state.ts'

/** Maximum number of records that are read and applied in one turn. */
const READ_MAX = 1_000

type LogFeedPorts = {
  readonly reader: LogReader<MarketEvent>
  /**
   * In a cluster: returns the end of each partition’s log. The local files are a copy that may lag, so their end may be
   * too early.
   */
  readonly logEnds: LogEnds | undefined
  readonly deliver: (message: AccountsProtocol['Logged']['takes']) => void
  readonly isStopped: () => boolean
}

export type LogFeed = {
  /** Sets the last offset that the loaded state includes. Reading starts after it. */
  foldedTo(partition: number, offset: number): void
  /** Reads new events in a later turn of the event loop. */
  read(): void
  lookAtEnds(): Promise<void>
}

export function makeLogFeed(
  { log, clock, timers }: Pick<ThreadContext, 'log' | 'clock' | 'timers'>,
  { reader, logEnds, deliver, isStopped }: LogFeedPorts,
): LogFeed {
  /** Last offset of each partition that the actor has received; empty until the actor has loaded. */
  const folded = new Map<number, number>()
  /** In a cluster: the end of each partition's log, and the time at which it was read. */
  const ends = new Map<number, { readonly offset: number; readonly atMs: number }>()
  let reading = false

  /** Applies new records of the logs, one turn at a time. */
  function read(): void {
    if (reading || isStopped()) return
    reading = true
    timers.soon(() => {
      reading = false
      if (!isStopped() && readTurn()) read()
    })
  }

  /** Applies some records. Returns whether there are more. */
  function readTurn(): boolean {
    let more = false
    for (const [partition, offset] of folded) {
      const atMs = clock.nowMs()
      let records: ReturnType<typeof reader.read>
      try {
        records = reader.read(partition, offset + 1, READ_MAX)
      } catch (error) {
        // If records that this thread has not read were removed from the log, the thread ends. After its
        // restart, it loads everything again from the database, which contains these records.
        if (!(error instanceof Fault && error.retryable)) throw error
        log.warn({ partition, why: error.message }, 'the log cannot be read now')
        continue
      }
      const toOffset = records.at(-1)?.offset ?? offset
      folded.set(partition, toOffset)
      const isEnd = records.length < READ_MAX
      more ||= !isEnd
      const caughtUpAtMs = !isEnd ? undefined : logEnds !== undefined ? endedAt(partition) : atMs
      deliver({
        partition,
        events: records.map(({ event }) => event),
        toOffset,
        ...(caughtUpAtMs === undefined ? {} : { caughtUpAtMs }),
      })
    }
    return more
  }

  /**
   * Returns the time at which the end of the partition's log was requested, if this thread has read all records up to
   * that end. Returns undefined if records are missing.
   */
  function endedAt(partition: number): number | undefined {
    const end = ends.get(partition)
    return end !== undefined && (folded.get(partition) ?? 0) >= end.offset ? end.atMs : undefined
  }

  let looking = false

  async function lookAtEnds(): Promise<void> {
    if (logEnds === undefined || looking) return
    looking = true
    const atMs = clock.nowMs()
    try {
      for (const [partition, offset] of await logEnds.read()) ends.set(partition, { offset, atMs })
      read()
    } catch (error) {
      if (!(error instanceof Fault && error.retryable) && !isStopped()) throw error
      log.debug({ err: error }, 'the end of the log could not be read')
    } finally {
      looking = false
    }
  }

  return { foldedTo: (partition, offset) => void folded.set(partition, offset), read, lookAtEnds }
}
