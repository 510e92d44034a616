/**
 * The event log in a database that speaks MySQL's protocol: what was appended there happened. Beside it
 * lies a copy in SQLite, by which everything but an append is answered; it may be lost at any time, and is
 * made again from the database. Each partition has one owner, which is whoever took it last.
 */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import type {
  Appended,
  EventForm,
  EventLog,
  LogBatch,
  LogEvent,
  PartitionState,
} from '../event-log.ts'
import { partitionPaths } from '../log-folder.ts'
import { BatchEncoder, WHOLE } from '../partition/record.ts'
import { openSqliteLog, type SqliteLogOptions } from '../partition/sqlite-log.ts'
import { AckedMark, checkAcked } from './acked-mark.ts'
import { makeBaseJobs } from './base-jobs.ts'
import { chainedCrc, encodeBody, newFence } from './log-body.ts'
import { POSITION, positionText } from './mysql-base.ts'
import { asFault, makeCopier, openHome } from './mysql-copy.ts'
import { LogRows, type Place, partsTakenOver, refused } from './mysql-rows.ts'
import { LOG_URL_SHAPE, MysqlServer, parseMysqlAddress } from './mysql-server.ts'

/** How long an append is tried again before it is said that nobody knows what became of it. */
const APPEND_MS_MAX = 8_000
/** How long the server may take to find out whether partitions were taken over. */
const CONFIRM_MS_MAX = 1_000
/** After so many bytes of rows a partition's base is made again. */
const BASE_EVERY_BYTES = 64 * 1024 * 1024

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
  /** By which it takes its partition anew after a failed append; the same until that is done. */
  fence: Buffer | undefined
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
    throw refused('LOG_URL_INVALID', LOG_URL_SHAPE)
  }
  const form = options.form ?? (WHOLE as EventForm<Event>)
  const baseEveryBytes = options.baseEveryBytes ?? BASE_EVERY_BYTES
  const patienceOf = (partition: number) => ({
    totalMs: options.appendMsMax ?? APPEND_MS_MAX,
    retried: (error: unknown) => watch?.retried(partition, error),
  })
  const home = await openHome(address, options)
  const serveCopy = (): EventLog<Event> =>
    openSqliteLog<Event>({ ...rest, dataDir, form, own, isCopy: true })
  const copier = makeCopier<Event>({ ...rest, dataDir, form, logId: home.id })
  const bases = makeBaseJobs({ dataDir, logId: home.id, address })
  const encoder = new BatchEncoder()
  /** A separate connection: an append in flight must not delay the check of ownership. */
  const confirming = new MysqlServer(address)
  const held = new Map<number, Held>()

  async function take(partition: number): Promise<Held> {
    const rows = new LogRows(new MysqlServer(address!), partition, patienceOf(partition))
    const acked = new AckedMark(partitionPaths(dataDir, partition).acked)
    const each: Held = {
      ...{ partition, rows, acked, place: { seq: 0, epoch: 0, crc: 0 }, fence: undefined },
      ...{ bytesUnbased: 0, isBasing: false, trouble: undefined, isMending: false },
    }
    held.set(partition, each)
    await checkAcked(each, acked)
    each.place = await rows.takeOver()
    await copier.catchUp(each)
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
    await confirming.close()
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

  /** A partition in trouble takes no appends and is mended or given up by itself. */
  async function takenOver(): Promise<readonly number[]> {
    const sound = [...held.values()].filter(({ trouble }) => trouble === undefined)
    const places = sound.map(({ partition, place }) => ({ ...place, part: partition }))
    const taken = await partsTakenOver(confirming, places, CONFIRM_MS_MAX)
    const lost = sound.filter(
      ({ partition, trouble }) => trouble === undefined && taken.includes(partition),
    )
    for (const each of lost) fencedOff(each)
    return lost.map(({ partition }) => partition)
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
    void bases.make({ partition: each.partition, epoch: each.place.epoch }).then((answer) => {
      each.isBasing = false
      watch?.based(each.partition, 'failed' in answer ? answer.failed : undefined)
    })
  }

  /**
   * After a failed append what is in the database counts, whatever this thread believed. Its row may still be on
   * the way there, so the partition is taken anew: then it has landed already, or never will.
   */
  async function mend(each: Held): Promise<void> {
    const { partition, rows, acked } = each
    await checkAcked(each, acked)
    each.fence ??= newFence()
    const taken = await rows.retake(each.place.epoch, each.fence)
    if (taken === undefined) throw fencedOff(each)
    copy.reopen(partition)
    const { seq, epoch, crc } = await copier.follow(copy, each)
    if (epoch !== taken.epoch) throw fencedOff(each)
    each.place = { seq, epoch, crc }
    each.fence = undefined
    acked.write(each.place)
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
    takenOver,
    reopen,
    close: async () => {
      await copy.close()
      await release()
    },
  }
}

/** The owner has no use for what the copy keeps for itself. */
function withoutPosition(state: PartitionState): PartitionState {
  const { [POSITION]: _, ...meta } = state.meta
  return { ...state, meta }
}

function failed(fault: Fault): Fault {
  return new Fault('LOG_APPEND_FAILED', fault.message, { retryable: true, cause: fault })
}
