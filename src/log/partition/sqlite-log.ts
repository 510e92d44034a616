/**
 * The event log in local files: one SQLite file per partition in write-ahead mode, one transaction and one
 * sync per batch. `openSqliteLog` creates the objects that do the work, and passes each call to the object of
 * its partition.
 */

import assert from 'node:assert/strict'
import type { MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import type { ArchiveOptions } from '../archive/archive-keeper.ts'
import type { EventForm, EventLog, LogEvent } from '../event-log.ts'
import { createLog, type Lock, lockPartition, partitionPaths } from '../log-folder.ts'
import { makeBackgroundJobs } from './background-jobs.ts'
import { type Checkpointer, makeCheckpointer } from './checkpointer.ts'
import { Partition } from './partition.ts'
import { UPCASTERS, type Upcasters, WHOLE } from './record.ts'
import { sqliteFault } from './sqlite-fault.ts'

/**
 * `CLOSED_TAIL_MAX`: maximum number of closed orders in the table of one partition before they are moved into runs
 * (sorted files). `CLOSED_ORDERS_MAX`: the maximum while the disk has no space for runs. Each order in the table takes
 * about 16 bytes of memory.
 */
const CLOSED_TAIL_MAX = 262_144
const CLOSED_ORDERS_MAX = 8_000_000
/** Maximum memory for the filters of one partition's runs: enough for 150 million orders. */
const FILTER_BYTES_MAX = 256 * 1024 * 1024
const RUN_ORDERS_MAX = 4_194_304

export type SqliteLogOptions = {
  readonly dataDir: string
  /** Number of partitions; they are created if the data folder has no log yet. */
  readonly partitions: number
  /** Partitions that this log writes; no other log may have them open for writing. */
  readonly own: readonly number[]
  readonly closedOrdersMax?: number
  /** Small in tests. */
  readonly closedTailMax?: number
  /** Archive for events before they are deleted from the log; without an archive they are only deleted. */
  readonly archive?: ArchiveOptions
  readonly partitionBytesMax?: number
  /** True to open even a partition that has lost acknowledged commands; set only if an operator asks for it. */
  readonly acceptLoss?: boolean
  /** True to run checkpoints in their own thread; true by default. */
  readonly checkpointThread?: boolean
  readonly upcasters?: Upcasters
  /** Page size of new files; small in tests. */
  readonly pageBytes?: number
  /** True if these files are a local copy of a log whose original is in a database server. */
  readonly isCopy?: boolean
}

export function openSqliteLog<Event extends LogEvent>(
  options: SqliteLogOptions & { readonly form?: EventForm<Event> },
): EventLog<Event> {
  const { dataDir, own } = options
  const identity = createLog(
    dataDir,
    options.partitions,
    options.pageBytes === undefined ? {} : { pageBytes: options.pageBytes },
  )
  const locks: Lock[] = []
  const partitions = new Map<number, Partition<Event>>()
  let checkpointer: Checkpointer | undefined
  const jobs = makeBackgroundJobs()
  const release = () => {
    for (const partition of partitions.values()) partition.close()
    partitions.clear()
    for (const lock of locks.splice(0)) lock.release()
  }
  try {
    for (const number of own) {
      assert(number >= 0 && number < identity.partitions, 'a log owns partitions that exist')
      const paths = partitionPaths(dataDir, number)
      locks.push(lockPartition(paths))
      const partition = new Partition<Event>({
        home: { logId: identity.id, partition: number },
        paths,
        upcasters: options.upcasters ?? UPCASTERS,
        form: options.form ?? (WHOLE as EventForm<Event>),
        closedOrdersMax: options.closedOrdersMax ?? CLOSED_ORDERS_MAX,
        closedTailMax: options.closedTailMax ?? CLOSED_TAIL_MAX,
        runs: { filterBytesMax: FILTER_BYTES_MAX, runOrdersMax: RUN_ORDERS_MAX },
        mergeClosed: (job) => jobs.run('merge', job),
        ...(options.archive === undefined
          ? {}
          : { archive: { ...options.archive, write: (job) => jobs.run('archive', job) } }),
        ...(options.partitionBytesMax === undefined ? {} : { bytesMax: options.partitionBytesMax }),
        acceptLoss: options.acceptLoss ?? false,
        isCopy: options.isCopy ?? false,
        askCheckpoint: () => checkpointer?.ask(own.indexOf(number)),
        checkpoints: () => checkpointer?.ended(own.indexOf(number)) ?? 0,
      })
      partitions.set(number, partition)
    }
  } catch (error) {
    release()
    throw sqliteFault('LOG_OPEN_FAILED', dataDir, error)
  }
  if (options.checkpointThread !== false && own.length > 0) {
    checkpointer = makeCheckpointer(own.map((number) => partitionPaths(dataDir, number).database))
  }

  const at = (number: number): Partition<Event> => {
    const partition = partitions.get(number)
    assert(partition !== undefined, `partition ${number} is not open or not owned by this log`)
    return partition
  }
  return {
    id: identity.id,
    partitions: identity.partitions,
    owned: [...own],
    state: (partition) => at(partition).state(),
    firstOffset: (partition) => at(partition).state().firstOffset,
    lastOffset: (partition) => at(partition).state().lastOffset,
    read: (partition, fromOffset, limit) => at(partition).read(fromOffset, limit),
    append: async (partition, batch) => at(partition).append(batch),
    reopen: (partition) => at(partition).reopen(),
    closedOrders: (partition, hashes: readonly OrderHash[]) => at(partition).closedOrders(hashes),
    closedOrderRoom: (partition) => at(partition).closedOrderRoom(),
    forgetClosed: (partition, nowSec, limit) => at(partition).forgetClosed(nowSec, limit),
    tradeStatuses: (partition, ids: readonly TradeId[]) => at(partition).tradeStatuses(ids),
    beginSnapshot: (partition, marketId: MarketId, atOffset, seq: Sequence) =>
      at(partition).beginSnapshot(marketId, atOffset, seq),
    snapshots: (partition) => at(partition).snapshots(),
    readSnapshot: (partition, marketId: MarketId) => at(partition).readSnapshot(marketId),
    truncationFloor: (partition) => at(partition).truncationFloor(),
    truncate: (partition, belowOffset, projectedOffset, limit) =>
      at(partition).truncate(belowOffset, projectedOffset, limit),
    retireMarket: (partition, marketId: MarketId) => at(partition).retireMarket(marketId),
    sweep: (partition, limit) => at(partition).sweep(limit),
    close: async () => {
      await checkpointer?.stop()
      await jobs.stop()
      for (const partition of partitions.values()) await partition.endSnapshots()
      release()
    },
  }
}
