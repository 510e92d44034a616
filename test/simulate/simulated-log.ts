/**
 * The log of one market thread in a simulation. `files` behaves like the log in files: an append is durable when the
 * call returns, or fails. `server` behaves like the log in a database server: appends take time, and may arrive late or
 * without an acknowledgement. A partition on the server has one owner, whose epoch fences all earlier owners.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Appended, EventLog, LogBatch, SnapshotWriter } from '#log/event-log.ts'
import type { Random } from '../support/random.ts'
import type { Faults } from './faults.ts'
import type { Life, Scheduler } from './scheduler.ts'
import { encodeRow, PartitionCopy, type StoredPartition, type StoredRow } from './stored-log.ts'

type LogPorts = {
  readonly kind: 'files' | 'server'
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly random: Random
  readonly life: Life
  readonly truth: readonly StoredPartition[]
  /** This node's copies, by partition. */
  readonly copies: Map<number, PartitionCopy>
  /** Ends the life at this instant. */
  readonly kill: () => void
  /** Called when this log finds that another owner has taken the partition. */
  readonly fenced: (partition: number) => void
}

type Owned = {
  readonly partition: number
  readonly truth: StoredPartition
  readonly copy: PartitionCopy
  epoch: number
  /** Reason why it takes no appends. */
  trouble: Fault | undefined
  isMending: boolean
  /** Snapshots in progress. */
  readonly drafts: Set<() => void>
}

const failed = (why: string): Fault => new Fault('LOG_APPEND_FAILED', why, { retryable: true })
const needsReopen = (why: string): Fault => new Fault('LOG_NEEDS_REOPEN', why, { retryable: true })
const neverEnds = new Promise<never>(() => {})

export async function openSimulatedLog(
  ports: LogPorts,
  own: readonly number[],
): Promise<EventLog<MarketEvent>> {
  const { kind, scheduler, faults, random, life, truth, copies } = ports
  const owned = new Map<number, Owned>()
  const isServer = kind === 'server'

  function wait(fromUs: number, toUs: number): Promise<void> {
    return new Promise((resolve) => void scheduler.after(random.int(fromUs, toUs), resolve, life))
  }

  for (const partition of own) {
    if (isServer) await wait(500, 20_000)
    if (isServer && faults.strikes('copy-lost')) copies.delete(partition)
    const stored = truth[partition]!
    if (isServer) stored.epoch++
    const copy = copies.get(partition) ?? new PartitionCopy(stored)
    copies.set(partition, copy)
    if (!isServer) stored.file = copy
    copy.follow()
    const { epoch } = stored
    scheduler.trace(`${life.name} opens partition ${partition} at epoch ${epoch}`)
    const none = { trouble: undefined, isMending: false, drafts: new Set<() => void>() }
    owned.set(partition, { partition, truth: stored, copy, epoch, ...none })
  }

  function at(partition: number): Owned {
    const each = owned.get(partition)
    if (each === undefined) throw new Error(`partition ${partition} is not owned`)
    return each
  }

  /**
   * Returns this node's copy of a partition. If an append to a log in files has failed, throws until the log is
   * reopened.
   */
  function open(partition: number): PartitionCopy {
    const each = at(partition)
    if (!isServer && each.trouble !== undefined) throw needsReopen(each.trouble.message)
    return each.copy
  }

  function fence(each: Owned): Fault {
    each.trouble = new Fault('LOG_FENCED', `partition ${each.partition} was taken over`, {
      retryable: true,
    })
    ports.fenced(each.partition)
    return each.trouble
  }

  function appendToFile(each: Owned, row: StoredRow): void {
    if (faults.strikes('append-lost')) throw failed('the disk failed before the write')
    const dies = faults.strikes('kill-in-append')
    if (dies && faults.of('kill-in-append').chance(0.5)) {
      ports.kill()
      return
    }
    if (!each.truth.store(row, each.epoch)) throw new Error('two owners of one file')
    each.copy.follow()
    if (dies) ports.kill()
    else if (faults.strikes('append-unknown')) throw failed('the disk failed after the write')
    else if (faults.strikes('append-slow')) {
      life.pausedUntilUs = scheduler.nowUs + faults.of('append-slow').int(1_000, 3_000_000)
    }
  }

  /** Resolves when the server has acknowledged the row. */
  async function appendToServer(each: Owned, row: StoredRow): Promise<void> {
    const { epoch } = each
    const isSlow = faults.strikes('append-slow')
    const wayUs = isSlow ? faults.of('append-slow').int(10_000, 7_000_000) : random.int(200, 8_000)
    const isLost = faults.strikes('append-lost')
    const isLate = faults.strikes('append-late')
    const isUnknown = faults.strikes('append-unknown')
    let stored: boolean | undefined
    const store = () => {
      stored = each.truth.store(row, epoch)
    }
    // The server stores a row that was sent, even if the sender ends before the row arrives.
    if (isLate) scheduler.after(wayUs + faults.of('append-late').int(1_000, 4_000_000), store)
    else if (!isLost) scheduler.after(wayUs, store)
    await new Promise<void>((resolve) => {
      scheduler.after(wayUs + random.int(100, 2_000), resolve, life)
    })
    if (isLost || isLate || isUnknown) throw failed('the server does not answer')
    if (stored !== true) throw fence(each)
    each.copy.follow(row.first)
  }

  async function append(partition: number, batch: LogBatch<MarketEvent>): Promise<Appended> {
    if (!life.alive) return neverEnds
    const each = at(partition)
    if (each.trouble !== undefined) throw failed(each.trouble.message)
    const firstOffset = each.copy.state.lastOffset + 1
    const row = encodeRow(partition, firstOffset, batch)
    try {
      if (isServer) await appendToServer(each, row)
      else appendToFile(each, row)
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      each.trouble ??= error
      throw failed(error.message)
    }
    if (!life.alive) return neverEnds
    const { length } = batch.events
    return { firstOffset, lastOffset: firstOffset + length - 1, rows: row.payloads }
  }

  /**
   * After a failed append, takes the partition again under a new epoch. If a row of the previous epoch arrives later,
   * it is not stored.
   */
  async function mend(each: Owned): Promise<void> {
    await wait(1_000, 100_000)
    if (faults.strikes('reopen-fails')) return
    if (each.truth.epoch !== each.epoch) {
      fence(each)
      return
    }
    each.epoch = ++each.truth.epoch
    await wait(1_000, 50_000)
    each.copy.follow()
    if (each.truth.epoch === each.epoch) each.trouble = undefined
    else fence(each)
  }

  function reopen(partition: number) {
    const each = at(partition)
    for (const abort of each.drafts) abort()
    if (!isServer) {
      if (faults.strikes('reopen-fails')) {
        each.trouble ??= failed('closed')
        throw needsReopen('the disk fails')
      }
      each.copy.follow()
      each.trouble = undefined
      return each.copy.state
    }
    if (each.trouble === undefined) return each.copy.state
    if (each.trouble.code !== 'LOG_FENCED' && !each.isMending) {
      each.isMending = true
      void mend(each).then(() => {
        each.isMending = false
      })
    }
    throw needsReopen(each.trouble.message)
  }

  async function takenOver(): Promise<readonly number[]> {
    const sound = [...owned.values()].filter(({ trouble }) => trouble === undefined)
    await wait(100, faults.strikes('confirm-slow') ? 3_000_000 : 2_000)
    if (faults.strikes('confirm-fails')) throw failed('the server does not answer')
    const taken = sound.filter(({ truth: { epoch }, ...each }) => epoch !== each.epoch)
    await wait(100, 2_000)
    const lost = taken.filter(({ trouble }) => trouble === undefined)
    for (const each of lost) fence(each)
    return lost.map(({ partition }) => partition)
  }

  return {
    id: 'simulated',
    partitions: truth.length,
    owned: [...own],
    state: (partition) => open(partition).state,
    firstOffset: (partition) => open(partition).state.firstOffset,
    lastOffset: (partition) => open(partition).state.lastOffset,
    read: (partition, fromOffset, limit) => open(partition).read(fromOffset, limit),
    append,
    ...(isServer ? { takenOver } : {}),
    reopen,
    closedOrders: (partition, hashes) => hashes.map((hash) => open(partition).closed.get(hash)),
    closedOrderRoom: () => 1_000_000,
    forgetClosed(partition, nowSec) {
      const forgotten = life.alive ? open(partition).forget(nowSec) : 0
      return { forgotten, passed: true, more: false }
    },
    tradeStatuses: (partition, ids) => ids.map((id) => open(partition).trades.get(id)),
    beginSnapshot: (partition, marketId, atOffset, seq) => {
      open(partition)
      return beginSnapshot(ports, at(partition), { marketId, atOffset, seq })
    },
    snapshots: (partition) => [...open(partition).snapshots.values()].map(({ meta }) => meta),
    readSnapshot: (partition, marketId) => open(partition).snapshots.get(marketId),
    truncationFloor: (partition) => open(partition).floor,
    truncate(partition, belowOffset, projectedOffset) {
      const copy = open(partition)
      if (life.alive) return copy.truncate(belowOffset, projectedOffset)
      return { firstOffset: copy.state.firstOffset, removed: 0, more: false }
    },
    retireMarket(partition, marketId) {
      if (life.alive) open(partition).retire(marketId)
    },
    sweep: () => 0,
    close: async () => {},
  }
}

/**
 * Begins a snapshot, which becomes visible when it is complete. A fault or the end of the process discards an
 * incomplete snapshot.
 */
function beginSnapshot(
  { scheduler, faults, random, life }: LogPorts,
  each: Owned,
  subject: { readonly marketId: MarketId; readonly atOffset: number; readonly seq: number },
): SnapshotWriter {
  const chunks: Buffer[] = []
  const broken = new Fault('LOG_SNAPSHOT_FAILED', 'the snapshot failed', { retryable: true })
  let isAborted = false
  const abort = () => {
    isAborted = true
    each.drafts.delete(abort)
  }
  each.drafts.add(abort)
  return {
    isReady: () => !faults.strikes('snapshot-slow'),
    writeChunk(...parts) {
      if (isAborted || faults.strikes('snapshot-fails')) throw broken
      chunks.push(Buffer.concat(parts))
    },
    async commit() {
      const isSlow = faults.strikes('snapshot-slow')
      await new Promise<void>((resolve) => {
        scheduler.after(random.int(100, isSlow ? 5_000_000 : 20_000), resolve, life)
      })
      if (isAborted || faults.strikes('snapshot-fails')) throw broken
      each.drafts.delete(abort)
      const meta = { ...subject, chunks: chunks.length }
      if (each.copy.has(subject.marketId))
        each.copy.snapshots.set(subject.marketId, { meta, chunks })
      scheduler.trace(`${life.name} snapshot of ${subject.marketId.slice(-4)} at ${subject.seq}`)
      return meta
    },
    abort,
  }
}
