/**
 * Follows the logs and writes their events to the database. For each partition, the projector reads the log from the
 * checkpoint, derives rows from the events, and writes the rows together with the new checkpoint. Markets never wait
 * for the projector: an unavailable database stops only the projection, which catches up later.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { MarketEvent, TradeFailed } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import type { FaultySide } from '#domain/trade.ts'
import type { LogReader } from '#log/event-log.ts'
import type { LogReaderProtocol } from '#protocol/projector.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type { Checkpoint } from '#store/projection/checkpoints.ts'
import type {
  MarketChange,
  MarketRow,
  OrderChange,
  OrderRow,
  ProjectionBatch,
  TradeChange,
  TradeRow,
} from '#store/projection/rows.ts'

export type StoreProtocol = LogReaderProtocol & {
  /** Sent at intervals: the projector reads the logs, even without a notification. */
  Tick: { takes: object; answers: undefined }
  /** Sent after `GATHER_MS`: the projector writes the collected events. */
  Gathered: { takes: object; answers: undefined }
  Claimed: { takes: { checkpoints: readonly Checkpoint[] }; answers: undefined }
  ClaimFailed: { takes: { why: string; retry: boolean }; answers: undefined }
  BatchWritten: {
    takes: {
      partition: number
      to: number
      trades: number
      closed: readonly MarketId[]
    }
    answers: undefined
  }
  /** Positions of partitions that another store writes. */
  Followed: { takes: { checkpoints: readonly Checkpoint[] }; answers: undefined }
  BatchFailed: { takes: { partition: number; why: string; retry: boolean }; answers: undefined }
  /** Sent when the store of another node takes over: the current write is finished, and no further write starts. */
  Leave: { takes: object; answers: undefined }
}

export type StoreEvent =
  /** Emitted once the rows are in the database, so that the log may be truncated. */
  | { readonly type: 'Projected'; readonly partition: number; readonly offset: number }
  /** New trades are in the database and can be settled. */
  | { readonly type: 'TradesWritten' }
  /** Markets are closed in the database; their open orders must still be ended in the database. */
  | { readonly type: 'MarketsClosed'; readonly marketIds: readonly MarketId[] }

type PartitionProgress = {
  projected: number
  appended: number
  writing: boolean
  /** Events up to this offset are written without waiting for more events. */
  due: number
  fault: string
  /**
   * True if the database refuses the partition's next events, or has data that contradicts these events. The projection
   * of this partition then stops, because skipping the events could lose a trade unnoticed. The other partitions
   * continue.
   */
  refused: boolean
}

/** Functions of the database that the store needs. */
export type StoreDatabase = {
  /**
   * Claims the database for the log; rejects if it belongs to another log. Returns the database's offset in each
   * partition.
   */
  readonly claim: (log: { logId: string; partitions: number }) => Promise<readonly Checkpoint[]>
  /**
   * Writes a batch, and returns the position that the database has in the partition afterwards. This may differ from
   * the batch's end if an earlier write from the same start was committed, but its answer was lost. Several batches may
   * share a transaction.
   */
  readonly write: (batch: ProjectionBatch) => Promise<{ readonly offset: number }>
  /** Set if several stores share the database, each writing some partitions. */
  readonly shared?: {
    /** Returns whether this store writes the partition. */
    readonly isOwn: (partition: number) => boolean
    /** Returns the positions of all partitions in the database, including partitions that other stores write. */
    readonly read: () => Promise<readonly Checkpoint[]>
  }
}

export type StoreState = {
  readonly log: LogReader<MarketEvent>
  readonly database: StoreDatabase
  /** State of each partition; empty until this log has claimed the database. */
  readonly partitions: Map<number, PartitionProgress>
  claiming: boolean
  /** True if a write of all partitions is planned for the end of `GATHER_MS`. */
  gathering: boolean
  /** Time of the next retry. */
  retryAtMs: number
  /** Why the last claim failed; empty if it succeeded. */
  fault: string
  /**
   * Why the database refused this log, for example because it belongs to another log. Nothing is written then, because
   * a write would hide the wrong configuration.
   */
  refused: string
  leaving: boolean
}

/**
 * Time for which events are collected before they are written. Large transactions are cheaper, because their rows share
 * index pages: an order takes half as long in a transaction of 2,000 orders as in one of 100. Fewer transactions also
 * mean fewer syncs of the database, and each sync delays a sync of the log. No client is delayed, because no client
 * reads the newest changes from the database.
 */
const GATHER_MS = 100
/**
 * Number of waiting events, in all partitions together, at which the events are written before `GATHER_MS` has passed.
 */
const GATHER_EVENTS = PROJECTION_ROWS_MAX

/** Pause before a failed write is retried. */
const RETRY_MS = 500

export function newStore(log: LogReader<MarketEvent>, database: StoreDatabase): StoreState {
  return {
    ...{ log, database, partitions: new Map(), claiming: false, gathering: false },
    ...{ retryAtMs: 0, fault: '', refused: '', leaving: false },
  }
}

type StoreContext = Context<StoreProtocol, StoreEvent>

export const store: Behaviour<StoreState, StoreProtocol, StoreEvent> = {
  Appended(state, { offsets }, context) {
    for (const [partition, lastOffset] of offsets) {
      const progress = state.partitions.get(partition)
      if (progress === undefined) continue
      progress.appended = Math.max(progress.appended, lastOffset)
    }
    writeSoon(state, context)
    return undefined
  },

  Gathered(state, _message, context) {
    state.gathering = false
    writeAll(state, context)
    return undefined
  },

  Tick(state, _message, context) {
    if (state.partitions.size === 0) claim(state, context)
    else follow(state, context)
    for (const [partition, progress] of state.partitions) {
      const last = readLog(state, progress, context, () => state.log.lastOffset(partition))
      if (last === undefined) continue
      progress.appended = Math.max(progress.appended, last)
      progress.due = progress.appended
      writeNext(state, partition, progress, context)
    }
    return undefined
  },

  Claimed(state, { checkpoints }, context) {
    state.claiming = false
    state.fault = ''
    for (const { partition, offset } of checkpoints) {
      const progress = {
        projected: offset,
        appended: offset,
        writing: false,
        due: 0,
        fault: '',
        refused: false,
      }
      state.partitions.set(partition, progress)
      context.emit({ type: 'Projected', partition, offset })
    }
    return store.Tick(state, {}, context)
  },

  ClaimFailed(state, { why, retry }, context) {
    state.claiming = false
    state.fault = why
    if (retry) again(state, context)
    else state.refused = why
    return undefined
  },

  BatchWritten(state, { partition, to, trades, closed }, context) {
    const progress = state.partitions.get(partition)
    if (progress === undefined) return undefined
    progress.writing = false
    progress.fault = ''
    progress.projected = to
    context.emit({ type: 'Projected', partition, offset: to })
    if (trades > 0) context.emit({ type: 'TradesWritten' })
    if (closed.length > 0) context.emit({ type: 'MarketsClosed', marketIds: closed })
    if (to < progress.due) writeNext(state, partition, progress, context)
    else writeSoon(state, context)
    return undefined
  },

  Followed(state, { checkpoints }, context) {
    for (const { partition, offset } of checkpoints) {
      const progress = state.partitions.get(partition)
      if (progress === undefined || progress.writing || isOwn(state, partition)) continue
      progress.fault = ''
      if (offset <= progress.projected) continue
      progress.projected = offset
      progress.refused = false
      context.emit({ type: 'Projected', partition, offset })
    }
    return undefined
  },

  BatchFailed(state, { partition, why, retry }, context) {
    const progress = state.partitions.get(partition)
    if (progress === undefined) return undefined
    progress.writing = false
    failed(state, progress, { why, retry }, context)
    return undefined
  },

  Leave(state) {
    state.leaving = true
    return undefined
  },
}

/** Returns why the database falls behind the logs; empty if it keeps up. */
export function whyBehind(state: StoreState): string {
  if (state.refused !== '') return state.refused
  for (const { fault } of state.partitions.values()) if (fault !== '') return fault
  return state.fault
}

/** Retries a failed partition later. If a retry cannot help, the partition stops until the next start. */
function failed(
  state: StoreState,
  progress: PartitionProgress,
  { why, retry }: { readonly why: string; readonly retry: boolean },
  context: StoreContext,
): void {
  progress.fault = why
  if (retry) again(state, context)
  else progress.refused = true
}

/** Schedules one retry for all partitions that failed. */
function again(state: StoreState, context: StoreContext): void {
  if (context.nowMs < state.retryAtMs) return
  state.retryAtMs = context.nowMs + RETRY_MS
  context.after(RETRY_MS, { type: 'Tick', message: {} })
}

function claim(state: StoreState, context: StoreContext): void {
  if (state.claiming || state.refused !== '' || state.leaving) return
  state.claiming = true
  const { id: logId, partitions } = state.log
  context.pipe(
    state.database.claim({ logId, partitions }),
    (checkpoints) => ({ type: 'Claimed', message: { checkpoints } }),
    (error) => ({ type: 'ClaimFailed', message: failureOf(error) }),
  )
}

function isOwn({ database: { shared } }: StoreState, partition: number): boolean {
  return shared === undefined || shared.isOwn(partition)
}

/**
 * Reads the positions of partitions that other stores write. This node's market threads need these positions to
 * truncate the log.
 */
function follow(state: StoreState, context: StoreContext): void {
  const { shared } = state.database
  if (shared === undefined || state.leaving || [...state.partitions.keys()].every(shared.isOwn))
    return
  const followed = (checkpoints: readonly Checkpoint[]) => ({
    type: 'Followed' as const,
    message: { checkpoints },
  })
  // If the read fails, the next tick tries again.
  context.pipe(shared.read(), followed, () => followed([]))
}

/** Plans one write of all partitions; starts it immediately if enough events wait. */
function writeSoon(state: StoreState, context: StoreContext): void {
  let waiting = 0
  for (const [partition, progress] of state.partitions) {
    if (!progress.writing && !progress.refused && isOwn(state, partition)) {
      waiting += progress.appended - progress.projected
    }
  }
  if (waiting >= GATHER_EVENTS) writeAll(state, context)
  else if (waiting > 0 && !state.gathering) {
    state.gathering = true
    context.after(GATHER_MS, { type: 'Gathered', message: {} })
  }
}

/** Writes everything that is available now. */
function writeAll(state: StoreState, context: StoreContext): void {
  for (const [partition, progress] of state.partitions) {
    progress.due = progress.appended
    writeNext(state, partition, progress, context)
  }
}

function writeNext(
  state: StoreState,
  partition: number,
  progress: PartitionProgress,
  context: StoreContext,
): void {
  if (progress.writing || progress.refused || progress.projected >= progress.appended) return
  if (!isOwn(state, partition) || state.leaving) return
  const from = progress.projected
  const records = readLog(state, progress, context, () =>
    state.log.read(partition, from + 1, PROJECTION_ROWS_MAX),
  )
  if (records === undefined || records.length === 0) return
  progress.writing = true
  const events = withinRows(records.map(({ event }) => event))
  const batch = derive(state.log.id, partition, from, events)
  context.pipe(
    state.database.write(batch),
    ({ offset }) => ({
      type: 'BatchWritten',
      message: {
        partition,
        to: offset,
        trades: batch.trades.length,
        closed: batch.marketChanges.map(({ marketId }) => marketId),
      },
    }),
    (error) => ({ type: 'BatchFailed', message: { partition, ...failureOf(error) } }),
  )
}

/** Reads the log. A fault of the log fails the partition, as a fault of the database does. */
function readLog<Result>(
  state: StoreState,
  progress: PartitionProgress,
  context: StoreContext,
  read: () => Result,
): Result | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    failed(state, progress, { why: error.message, retry: error.retryable }, context)
    return undefined
  }
}

function failureOf(error: unknown): { why: string; retry: boolean } {
  if (error instanceof Fault) return { why: error.message, retry: error.retryable }
  return { why: String(error), retry: false }
}

/** Returns the first events, at least one, whose rows fit into one transaction. */
export function withinRows(events: readonly MarketEvent[]): readonly MarketEvent[] {
  let rows = 0
  for (const [index, event] of events.entries()) {
    rows += event.type === 'OrdersMatched' ? 1 + 2 * event.fills.length : 1
    if (rows > PROJECTION_ROWS_MAX) return events.slice(0, Math.max(1, index))
  }
  return events
}

/** Derives the rows and changes from the events after an offset, in order. */
export function derive(
  logId: string,
  partition: number,
  from: number,
  events: readonly MarketEvent[],
): ProjectionBatch {
  const markets: MarketRow[] = []
  const marketChanges: MarketChange[] = []
  const orders: OrderRow[] = []
  const orderChanges: OrderChange[] = []
  const trades: TradeRow[] = []
  const tradeChanges: TradeChange[] = []
  for (const event of events) {
    const { marketId, seq, atMs } = event
    switch (event.type) {
      case 'MarketOpened':
        markets.push({ market: event.market, seq, atMs })
        break
      case 'OrderRested': {
        const { order, orderHash, remaining, matches, placedAtMs, tags } = event
        if (order === undefined) {
          orderChanges.push({ orderHash, status: 'open', remaining, seq, atMs })
        } else {
          orders.push({ order, status: 'open', remaining, matches, placedAtMs, seq, atMs, tags })
        }
        break
      }
      case 'OrdersMatched': {
        const { taker, takerRemaining: remaining, takerTags: tags, fills } = event
        const status = remaining === 0 ? 'filled' : 'open'
        if (event.known) {
          orderChanges.push({ orderHash: taker.orderHash, status, remaining, seq, atMs })
        } else {
          const placed = { order: taker, matches: fills.length, placedAtMs: atMs, tags }
          orders.push({ ...placed, status, remaining, seq, atMs })
        }
        for (const { makerHash: orderHash, makerRemaining } of fills) {
          const status = makerRemaining === 0 ? 'filled' : 'open'
          orderChanges.push({ orderHash, status, remaining: makerRemaining, seq, atMs })
        }
        for (const trade of tradesOf(event)) trades.push(trade)
        break
      }
      case 'OrderClosed': {
        const { orderHash, reason, remaining } = event
        const status = reason === 'taken' ? 'filled' : reason
        orderChanges.push({ orderHash, status, remaining, seq, atMs })
        break
      }
      case 'MarketClosed':
        marketChanges.push({ marketId, closed: event.reason, seq, atMs })
        break
      case 'TradeSubmitted': {
        const { tradeId, txHash } = event
        tradeChanges.push({ tradeId, status: 'submitted', txHash, reason: '', atMs })
        break
      }
      case 'TradeConfirmed': {
        const { tradeId, txHash } = event
        tradeChanges.push({ tradeId, status: 'confirmed', txHash, reason: '', atMs })
        break
      }
      case 'TradeFailed': {
        const { tradeId, txHash, reason } = event
        const fault = faultOf(event)
        tradeChanges.push({ tradeId, status: 'failed', txHash, reason, fault, atMs })
        break
      }
      case 'TradeReverted': {
        const { tradeId, txHash, reason } = event
        tradeChanges.push({ tradeId, status: 'reverted', txHash, reason, atMs })
        break
      }
    }
  }
  const to = from + events.length
  return {
    logId,
    partition,
    from,
    to,
    markets,
    marketChanges,
    orders,
    orderChanges,
    trades,
    tradeChanges,
  }
}

/** Returns the side at fault, without a side that the market excused. */
function faultOf({ fault, excused }: TradeFailed): FaultySide {
  if (excused === undefined) return fault
  if (excused === fault) return 'none'
  return excused === 'buyer' ? 'seller' : 'buyer'
}
