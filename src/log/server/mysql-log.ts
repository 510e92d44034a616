/**
 * The event log in a database server that speaks MySQL's protocol; the rows in the server are the log. A local copy in
 * SQLite serves all reads. The copy may be lost at any time, and is rebuilt from the server. Each partition has one
 * owner: the node that has taken it over last.
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
import { LOG_URL_SHAPE, type MysqlAddress, MysqlServer, parseMysqlAddress } from './mysql-server.ts'

/** Maximum time of retries before the outcome of an append counts as unknown. */
const APPEND_MS_MAX = 8_000
/** Maximum time for asking the server whether another node has taken over partitions. */
const CONFIRM_MS_MAX = 1_000
/** A partition's base (the stored copy of its files) is renewed after this many bytes of rows. */
const BASE_EVERY_BYTES = 64 * 1024 * 1024

export type MysqlLogOptions = SqliteLogOptions & {
  /** `mysql://user:password@host:port,host:port/database` */
  readonly url: string
  readonly appendMsMax?: number
  readonly baseEveryBytes?: number
  /** Receives the outcomes of appends, for metrics. */
  readonly watch?: MysqlLogWatch
}

export type MysqlLogWatch = {
  appended(ms: number, bytes: number, events: number): void
  retried(partition: number, error: unknown): void
  fenced(partition: number): void
  based(partition: number, failed: string | undefined): void
  /** Called if the server works, but may lose acknowledged rows because of its settings. */
  doubted(server: string, doubts: readonly string[]): void
}

type OwnedPartition = {
  readonly partition: number
  readonly rows: LogRows
  readonly acked: AckedMark
  place: Place
  /**
   * Fence (a row with a random value) that the owner inserts after a failed append, to take the partition again. If the
   * insert fails too, the next attempt uses the same fence. So it recognises a fence that an earlier attempt has
   * inserted.
   */
  fence: Buffer | undefined
  /** Number of bytes of rows since the last base. `isBasing` is true while a base is being uploaded. */
  bytesUnbased: number
  isBasing: boolean
  /** Reason why the partition accepts no appends. `isMending` is true while the partition recovers. */
  trouble: Fault | undefined
  isMending: boolean
}

/**
 * Handles the partitions that this log owns: takes them over, fences off earlier owners, recovers after failures, and
 * starts uploads of their bases.
 */
function makeOwnedPartitions<Event extends LogEvent>(ports: {
  readonly options: MysqlLogOptions
  readonly address: MysqlAddress
  readonly logId: string
  readonly copier: ReturnType<typeof makeCopier<Event>>
}) {
  const { options, address, logId, copier } = ports
  const { dataDir, watch, baseEveryBytes = BASE_EVERY_BYTES } = options
  const owned = new Map<number, OwnedPartition>()
  const bases = makeBaseJobs({ dataDir, logId, address })
  const patienceOf = (partition: number) => ({
    totalMs: options.appendMsMax ?? APPEND_MS_MAX,
    retried: (error: unknown) => watch?.retried(partition, error),
  })

  async function take(partition: number): Promise<OwnedPartition> {
    const rows = new LogRows(new MysqlServer(address), partition, patienceOf(partition))
    const acked = new AckedMark(partitionPaths(dataDir, partition).acked)
    const each: OwnedPartition = {
      ...{ partition, rows, acked, place: { seq: 0, epoch: 0, crc: 0 }, fence: undefined },
      ...{ bytesUnbased: 0, isBasing: false, trouble: undefined, isMending: false },
    }
    owned.set(partition, each)
    await checkAcked(each, acked)
    each.place = await rows.takeOver()
    await copier.catchUp(each)
    acked.write(each.place)
    return each
  }

  async function release(): Promise<void> {
    await bases.stop()
    for (const { rows, acked } of owned.values()) {
      acked.close()
      await rows.server.close()
    }
    owned.clear()
  }

  function at(partition: number): OwnedPartition {
    const each = owned.get(partition)
    assert(each !== undefined, `partition ${partition} is not open or not owned by this log`)
    return each
  }

  function fencedOff(each: OwnedPartition): Fault {
    watch?.fenced(each.partition)
    each.trouble = new Fault(
      'LOG_FENCED',
      `another exchange process has taken over partition ${each.partition} of the log`,
      { retryable: true },
    )
    return each.trouble
  }

  function baseNow(each: OwnedPartition, bytes: number): void {
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
   * Recovers after a failed append. The server may have stored the append's row already, or may still receive it. So
   * the owner inserts a fence to take the partition again. If the row arrives after the fence, the server refuses the
   * row.
   */
  async function mend(each: OwnedPartition, copy: EventLog<Event>): Promise<void> {
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

  async function startMending(each: OwnedPartition, copy: EventLog<Event>): Promise<void> {
    each.isMending = true
    try {
      await mend(each, copy)
      each.trouble = undefined
    } catch (error) {
      each.trouble = asFault(error)
    } finally {
      each.isMending = false
    }
  }

  return { owned, take, release, at, fencedOff, baseNow, startMending }
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
  const home = await openHome(address, options)
  const serveCopy = (): EventLog<Event> =>
    openSqliteLog<Event>({ ...rest, dataDir, form, own, isCopy: true })
  const copier = makeCopier<Event>({ ...rest, dataDir, form, logId: home.id })
  const parts = makeOwnedPartitions({ options, address, logId: home.id, copier })
  const { owned, at, fencedOff } = parts
  const encoder = new BatchEncoder()
  /** Connection for `takenOver` only. On a shared connection, this check would have to wait for an append. */
  const confirming = new MysqlServer(address)

  async function release(): Promise<void> {
    await confirming.close()
    await parts.release()
  }

  let copy: EventLog<Event>
  try {
    for (const partition of own) await parts.take(partition)
    copy = serveCopy()
  } catch (error) {
    await release()
    throw asFault(error)
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
      parts.baseNow(each, body.length)
      return appended
    } catch (error) {
      const fault = asFault(error)
      // The first fault is kept, because it explains the later ones.
      each.trouble ??= fault
      throw failed(fault)
    }
  }

  /**
   * Returns partitions that another owner has taken over. Leaves out partitions with a fault: they accept no appends,
   * and `mend` handles them.
   */
  async function takenOver(): Promise<readonly number[]> {
    const sound = [...owned.values()].filter(({ trouble }) => trouble === undefined)
    const places = sound.map(({ partition, place }) => ({ ...place, part: partition }))
    const taken = await partsTakenOver(confirming, places, CONFIRM_MS_MAX)
    const lost = sound.filter(
      ({ partition, trouble }) => trouble === undefined && taken.includes(partition),
    )
    for (const each of lost) fencedOff(each)
    return lost.map(({ partition }) => partition)
  }

  function reopen(partition: number): PartitionState {
    const each = at(partition)
    if (each.trouble === undefined) return withoutPosition(copy.reopen(partition))
    if (each.trouble.code !== 'LOG_FENCED' && !each.isMending) void parts.startMending(each, copy)
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

/**
 * Returns the state without the copy's position in the log. The local copy stores this position in `meta`, beside the
 * values of the partition's owner.
 */
function withoutPosition(state: PartitionState): PartitionState {
  const { [POSITION]: _, ...meta } = state.meta
  return { ...state, meta }
}

function failed(fault: Fault): Fault {
  return new Fault('LOG_APPEND_FAILED', fault.message, { retryable: true, cause: fault })
}
