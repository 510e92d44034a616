/**
 * Handles the local copy of a log in a database server. Opens the copy if it matches the log, rebuilds it if it does
 * not, and brings it up to date. The owner and the followers of a partition use the same code.
 */

import { Fault } from '#domain/fault.ts'
import type { EventForm, EventLog, LogEvent } from '../event-log.ts'
import { createLog, partitionPaths, renewPartition } from '../log-folder.ts'
import { UPCASTERS } from '../partition/record.ts'
import { openSqliteLog, type SqliteLogOptions } from '../partition/sqlite-log.ts'
import { chainedCrc, decodeBody, isFence } from './log-body.ts'
import { fetchBase, POSITION, type Position, positionOf, positionText } from './mysql-base.ts'
import {
  doubtsAbout,
  type LogRows,
  prepareTables,
  type Row,
  refused,
  untilKnown,
} from './mysql-rows.ts'
import { type MysqlAddress, MysqlServer } from './mysql-server.ts'

/**
 * Maximum number of attempts to read a base (the stored copy of a partition's files). An attempt fails if the
 * partition's owner replaces the base during the read.
 */
const FETCH_TRIES_MAX = 3

/**
 * Maximum time for the first connection and the creation of the tables. Within this time, each server is tried in turn.
 */
const OPEN_PATIENCE = { totalMs: 5_000, what: 'the log' }

/** A partition and its rows in the database. */
export type Copied = { readonly partition: number; readonly rows: LogRows }

type CopierOptions<Event extends LogEvent> = Omit<
  SqliteLogOptions,
  'own' | 'archive' | 'isCopy'
> & { readonly form: EventForm<Event>; readonly logId: string }

/** Creates the tables and the copy's folder if missing. Throws if the database and the folder have different logs. */
export async function openHome(
  address: MysqlAddress,
  options: {
    readonly dataDir: string
    readonly partitions: number
    readonly watch?: { doubted(server: string, doubts: readonly string[]): void } | undefined
  },
): Promise<{ readonly id: string; readonly partitions: number }> {
  const { dataDir, partitions, watch } = options
  const server = new MysqlServer(address)
  try {
    // This callback may be called again after an error, and several machines may run it at the same time, so
    // all of its statements are safe to repeat.
    const home = await untilKnown(
      server,
      OPEN_PATIENCE,
      async () => {
        const doubts = await doubtsAbout(server)
        if (doubts.length > 0) watch?.doubted(server.name, doubts)
        return prepareTables(server, partitions)
      },
      'LOG_SERVER_FAILED',
    )
    const identity = createLog(dataDir, home.partitions, { id: home.id, renews: true })
    if (identity.id === home.id) return home
  } catch (error) {
    throw asFault(error)
  } finally {
    await server.close()
  }
  throw refused(
    'LOG_FOREIGN',
    `${dataDir} contains another log than the database: move the folder "log" away to use the ` +
      'log of the database, or unset SIBYL_LOG_URL to use the log in the folder',
  )
}

export function makeCopier<Event extends LogEvent>(options: CopierOptions<Event>) {
  const { dataDir, form, logId } = options
  const upcasters = options.upcasters ?? UPCASTERS

  /**
   * Opens the copy without the archive. An outdated copy may end before the archive does, although no data is lost.
   * With the archive, such a copy would be refused as data loss.
   */
  function openCopy(partition: number): EventLog<Event> {
    const place = { own: [partition], checkpointThread: false, isCopy: true }
    return openSqliteLog<Event>({ ...options, ...place })
  }

  /** Applies new rows of the log to the copy; returns the last row of the log. */
  async function follow(copy: EventLog<Event>, { partition, rows }: Copied): Promise<Row> {
    let { seq, crc } = positionOf(copy.state(partition).meta)
    let end: Row | undefined
    for (;;) {
      const found = await rows.after(seq)
      for (const row of found) {
        if (row.seq !== seq + 1) await checkCut(partition, rows, { seq, crc })
        if (row.seq !== seq + 1 || chainedCrc(crc, row.body) !== row.crc) {
          throw refused(
            'LOG_CORRUPT',
            `partition ${partition}: row ${row.seq} of the log is damaged`,
          )
        }
        seq = row.seq
        crc = row.crc
        end = row
        await applyRow(copy, partition, row)
      }
      if (found.length === 0) break
    }
    return end ?? rows.last()
  }

  async function applyRow(copy: EventLog<Event>, partition: number, row: Row): Promise<void> {
    const meta = { [POSITION]: positionText(row) }
    if (isFence(row.body)) {
      const { lastMs } = copy.state(partition)
      await copy.append(partition, { events: [], nowMs: lastMs, meta })
      return
    }
    const place = { home: { logId, partition }, firstOffset: row.first_offset }
    const batch = decodeBody(row.body, place, { form, upcasters })
    if (
      batch.events.length !== row.events ||
      row.first_offset !== copy.state(partition).lastOffset + 1
    ) {
      throw refused(
        'LOG_CORRUPT',
        `partition ${partition}: row ${row.seq} of the log has a wrong offset or number of events`,
      )
    }
    await copy.append(partition, { ...batch, meta: { ...batch.meta, ...meta } })
  }

  /** Opens the copy's file if it belongs to this log; otherwise starts with the newest base, or with an empty file. */
  async function fitting({ partition, rows }: Copied): Promise<EventLog<Event>> {
    const paths = partitionPaths(dataDir, partition)
    let copy: EventLog<Event> | undefined
    try {
      copy = openCopy(partition)
      const at = positionOf(copy.state(partition).meta)
      if (await isOf(rows, at)) return copy
    } catch (error) {
      // A retryable error, such as another owner's lock or an open reader, is not damage. Throw it and keep the copy.
      if (!(error instanceof Fault) || error.retryable) throw error
    }
    await copy?.close()
    if ((await fetchBase(rows, paths)) === undefined) renewPartition(paths, { logId, partition })
    return openCopy(partition)
  }

  /** Returns a copy that contains all rows that the log had at the time of the call; the caller closes it. */
  async function openWhole(each: Copied): Promise<EventLog<Event>> {
    for (let tries = 1; ; tries++) {
      let copy: EventLog<Event> | undefined
      try {
        copy = await fitting(each)
        await follow(copy, each)
        return copy
      } catch (error) {
        await copy?.close()
        // The owner replaced the base while it was read, so retry with the new one.
        const isGone = error instanceof Fault && error.code === 'LOG_BASE_GONE'
        if (!isGone || tries === FETCH_TRIES_MAX) throw error
      }
    }
  }

  return {
    follow,
    openWhole,
    /** Brings the files of the copy up to date with the log. */
    async catchUp(each: Copied): Promise<void> {
      await (await openWhole(each)).close()
    },
  }
}

/**
 * Throws if the log no longer has the rows after the copy's last one, because a base (a stored copy of the files) has
 * replaced them. The copy must then start from that base.
 */
async function checkCut(partition: number, rows: LogRows, at: Position): Promise<void> {
  if (at.seq >= (await rows.firstSeq())) return
  throw new Fault(
    'LOG_BASE_GONE',
    `partition ${partition}: the log no longer has the rows after ${at.seq}, because a base (a stored copy of the files) has replaced them`,
    { retryable: true },
  )
}

/** Returns whether the log has a row with this number and this checksum. */
export async function isOf(rows: LogRows, { seq, crc }: Position): Promise<boolean> {
  return (await rows.at(seq))?.crc === crc
}

/** Converts driver errors to faults; throws bugs unchanged. */
export function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (typeof (error as { errno?: unknown }).errno === 'number' || isOfNetwork(error)) {
    const { message } = error as Error
    return new Fault('LOG_SERVER_FAILED', message, { retryable: true, cause: error })
  }
  throw error
}

function isOfNetwork(error: unknown): boolean {
  return typeof (error as { code?: unknown }).code === 'string'
}
