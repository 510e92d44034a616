/**
 * The event log in a database that speaks MySQL's protocol: what was appended there happened. Beside it
 * lies a copy in SQLite, by which everything but an append is answered; it may be lost at any time, and is
 * made again from the database. Each partition has one owner, which is whoever took it last.
 */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import { AckedMark } from './acked-mark.ts'
import { makeBaseJobs } from './base-jobs.ts'
import type {
  Appended,
  EventForm,
  EventLog,
  LogBatch,
  LogEvent,
  PartitionState,
} from './event-log.ts'
import { chainedCrc, decodeBody, encodeBody, isFence } from './log-body.ts'
import { createLog, partitionPaths, renewPartition } from './log-folder.ts'
import { fetchBase, POSITION, type Position, positionOf, positionText } from './mysql-base.ts'
import {
  doubtsAbout,
  LogRows,
  lost,
  type Place,
  prepareTables,
  type Row,
  refused,
} from './mysql-rows.ts'
import { MysqlServer, parseMysqlAddress } from './mysql-server.ts'
import { BatchEncoder, UPCASTERS, WHOLE } from './record.ts'
import { openSqliteLog, type SqliteLogOptions } from './sqlite-log.ts'

/** How long an append is tried again before it is said that nobody knows what became of it. */
const APPEND_MS_MAX = 8_000
/** After so many bytes of rows a partition's base is made again. */
const BASE_EVERY_BYTES = 64 * 1024 * 1024
/** A first read of a large partition while its base is being replaced elsewhere. */
const FETCH_TRIES_MAX = 3

export type MysqlLogOptions = SqliteLogOptions & {
  /** `mysql://user:password@host:port,host:port/database` */
  readonly url: string
  readonly appendMsMax?: number
  readonly baseEveryBytes?: number
  /** Told what happens to appends, for metrics. */
  readonly watch?: MysqlLogWatch
}

export type MysqlLogWatch = {
  appended(ms: number, bytes: number, events: number): void
  retried(partition: number, error: unknown): void
  fenced(partition: number): void
  based(partition: number, failed: string | undefined): void
  /** The server works, and may lose what it has acknowledged. */
  doubted(server: string, doubts: readonly string[]): void
}

type Held = {
  readonly partition: number
  readonly rows: LogRows
  readonly acked: AckedMark
  place: Place
  /** Bytes since the last base, and whether one is being made. */
  bytesUnbased: number
  isBasing: boolean
  /** What keeps it from taking appends; `mending` while that is being put right. */
  trouble: Fault | undefined
  isMending: boolean
}

export async function openMysqlLog<Event extends LogEvent>(
  options: MysqlLogOptions & { readonly form?: EventForm<Event> },
): Promise<EventLog<Event>> {
  const { dataDir, own, watch, ...rest } = options
  const address = parseMysqlAddress(options.url)
  if (address === undefined) {
    throw refused('LOG_URL_INVALID', 'the log is at mysql://user:password@host:port/database')
  }
  const form = options.form ?? (WHOLE as EventForm<Event>)
  const upcasters = options.upcasters ?? UPCASTERS
  const baseEveryBytes = options.baseEveryBytes ?? BASE_EVERY_BYTES
  const patienceOf = (partition: number) => ({
    totalMs: options.appendMsMax ?? APPEND_MS_MAX,
    retried: (error: unknown) => watch?.retried(partition, error),
  })
  const first = new MysqlServer(address)
  const home = await prepareHome(first, options).finally(() => first.close())
  const identity = createLog(dataDir, home.partitions, { id: home.id, renews: true })
  if (identity.id !== home.id) {
    throw refused(
      'LOG_FOREIGN',
      `${dataDir} holds another log than the database does: move its folder "log" away, or leave ` +
        'SIBYL_LOG_URL unset to go on with it',
    )
  }
  const serveCopy = (): EventLog<Event> =>
    openSqliteLog<Event>({ ...rest, dataDir, form, own, isCopy: true })
  /** Until it has caught up it may end before its archive does, and has nothing to archive. */
  const openCopy = (partition: number): EventLog<Event> => {
    const { archive: _, ...unarchived } = rest
    const place = { dataDir, form, own: [partition], checkpointThread: false }
    return openSqliteLog<Event>({ ...unarchived, ...place, isCopy: true })
  }
  const bases = makeBaseJobs({ dataDir, logId: home.id, address })
  const encoder = new BatchEncoder()
  const held = new Map<number, Held>()

  /** Applies to the copy what the log has behind it; answers where both end. */
  async function follow(copy: EventLog<Event>, { partition, rows }: Held): Promise<Row> {
    let { seq, crc } = positionOf(copy.state(partition).meta)
    let end: Row | undefined
    for (;;) {
      const found = await rows.after(seq)
      for (const row of found) {
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
    const place = { home: { logId: home.id, partition }, firstOffset: row.first_offset }
    const batch = decodeBody(row.body, place, { form, upcasters })
    if (
      batch.events.length !== row.events ||
      row.first_offset !== copy.state(partition).lastOffset + 1
    ) {
      throw refused(
        'LOG_CORRUPT',
        `partition ${partition}: row ${row.seq} of the log is at a wrong place`,
      )
    }
    await copy.append(partition, { ...batch, meta: { ...batch.meta, ...meta } })
  }

  /** The copy's own file, if it is one of this log; else an empty one, or the newest base. */
  async function fitting(each: Held): Promise<EventLog<Event>> {
    const { partition, rows } = each
    const paths = partitionPaths(dataDir, partition)
    let copy: EventLog<Event> | undefined
    try {
      copy = openCopy(partition)
      const at = positionOf(copy.state(partition).meta)
      if (await isOf(rows, at)) return copy
    } catch (error) {
      // Locked, or a reader in the way: that is no damage.
      if (!(error instanceof Fault) || error.retryable) throw error
    }
    await copy?.close()
    if ((await fetchBase(rows, paths)) === undefined) {
      renewPartition(paths, { logId: home.id, partition })
    }
    return openCopy(partition)
  }

  async function caughtUp(each: Held): Promise<void> {
    for (let tries = 1; ; tries++) {
      const copy = await fitting(each)
      try {
        await follow(copy, each)
        return
      } catch (error) {
        const isGone = error instanceof Fault && error.code === 'LOG_BASE_GONE'
        if (!isGone || tries === FETCH_TRIES_MAX) throw error
      } finally {
        await copy.close()
      }
    }
  }

  async function take(partition: number): Promise<Held> {
    const rows = new LogRows(new MysqlServer(address!), partition, patienceOf(partition))
    const acked = new AckedMark(partitionPaths(dataDir, partition).acked)
    const each: Held = {
      ...{ partition, rows, acked, place: { seq: 0, epoch: 0, crc: 0 } },
      ...{ bytesUnbased: 0, isBasing: false, trouble: undefined, isMending: false },
    }
    held.set(partition, each)
    await checkAcked(each)
    each.place = await rows.takeOver()
    await caughtUp(each)
    acked.write(each.place)
    return each
  }

  let copy: EventLog<Event>
  try {
    for (const partition of own) await take(partition)
    copy = serveCopy()
  } catch (error) {
    await release()
    throw asFault(error)
  }

  async function release(): Promise<void> {
    await bases.stop()
    for (const { rows, acked } of held.values()) {
      acked.close()
      await rows.server.close()
    }
    held.clear()
  }

  function at(partition: number): Held {
    const each = held.get(partition)
    assert(each !== undefined, `partition ${partition} is open and owned by this log`)
    return each
  }

  async function append(partition: number, batch: LogBatch<Event>): Promise<Appended> {
    const each = at(partition)
    if (each.trouble !== undefined) throw failed(each.trouble)
    const { place } = each
    const firstOffset = copy.state(partition).lastOffset + 1
    const where = { home: { logId: home.id, partition }, firstOffset }
    const body = encodeBody(encoder, where, batch, form)
    const begunMs = performance.now()
    try {
      const outcome = await each.rows.append(place, batch.events.length, body)
      if (outcome === 'fenced') throw fencedOff(each)
      each.place = { ...place, seq: place.seq + 1, crc: chainedCrc(place.crc, body) }
      each.acked.write(each.place)
      watch?.appended(performance.now() - begunMs, body.length, batch.events.length)
      const meta = { ...batch.meta, [POSITION]: positionText(each.place) }
      const appended = await copy.append(partition, { ...batch, meta })
      baseNow(each, body.length)
      return appended
    } catch (error) {
      const fault = asFault(error)
      // What was found wrong first stays: it says more than what followed from it.
      each.trouble ??= fault
      throw failed(fault)
    }
  }

  function fencedOff(each: Held): Fault {
    watch?.fenced(each.partition)
    each.trouble = new Fault(
      'LOG_FENCED',
      `partition ${each.partition} of the log was taken over by another exchange`,
      { retryable: true },
    )
    return each.trouble
  }

  function baseNow(each: Held, bytes: number): void {
    each.bytesUnbased += bytes
    if (each.bytesUnbased < baseEveryBytes || each.isBasing) return
    each.bytesUnbased = 0
    each.isBasing = true
    void bases.make(each.partition).then((answer) => {
      each.isBasing = false
      watch?.based(each.partition, 'failed' in answer ? answer.failed : undefined)
    })
  }

  /** After a failed append what is in the database counts, whatever this thread believed. */
  async function mend(each: Held): Promise<void> {
    const { partition, rows } = each
    const last = await rows.last()
    if (last.epoch !== each.place.epoch) throw fencedOff(each)
    copy.reopen(partition)
    await follow(copy, each)
    each.place = { seq: last.seq, epoch: last.epoch, crc: last.crc }
    each.acked.write(each.place)
  }

  function reopen(partition: number): PartitionState {
    const each = at(partition)
    if (each.trouble === undefined) return withoutPosition(copy.reopen(partition))
    if (each.trouble.code !== 'LOG_FENCED' && !each.isMending) {
      each.isMending = true
      mend(each)
        .then(
          () => {
            each.trouble = undefined
          },
          (error) => {
            each.trouble = asFault(error)
          },
        )
        .finally(() => {
          each.isMending = false
        })
    }
    throw new Fault('LOG_NEEDS_REOPEN', each.trouble.message, { retryable: true })
  }

  return {
    ...copy,
    owned: [...own],
    state: (partition) => withoutPosition(copy.state(partition)),
    append,
    reopen,
    close: async () => {
      await copy.close()
      await release()
    },
  }
}

async function prepareHome(server: MysqlServer, { partitions, watch }: MysqlLogOptions) {
  try {
    const doubts = await doubtsAbout(server)
    if (doubts.length > 0) watch?.doubted(server.name, doubts)
    return await prepareTables(server, partitions)
  } catch (error) {
    throw asFault(error)
  }
}

/** What this machine saw acknowledged must be there, or lie below what has become a base. */
async function checkAcked({ partition, rows, acked }: Held): Promise<void> {
  const known = acked.read()
  if (known === undefined || (await isOf(rows, known))) return
  const last = await rows.last()
  const first = await rows.firstSeq()
  if (known.seq < first) return
  throw lost(
    partition,
    rows.server.name,
    `row ${known.seq} was acknowledged here, and ` +
      (last.seq < known.seq ? `it ends with row ${last.seq}` : 'another row is in its place'),
  )
}

/** Whether a place is one of the log's: its very row is there. */
async function isOf(rows: LogRows, { seq, crc }: Position): Promise<boolean> {
  return (await rows.at(seq))?.crc === crc
}

/** The owner has no use for what the copy keeps for itself. */
function withoutPosition(state: PartitionState): PartitionState {
  const { [POSITION]: _, ...meta } = state.meta
  return { ...state, meta }
}

function failed(fault: Fault): Fault {
  return new Fault('LOG_APPEND_FAILED', fault.message, { retryable: true, cause: fault })
}

/** What the driver throws becomes a fault of ours; a bug stays what it is. */
function asFault(error: unknown): Fault {
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
