/**
 * The store follows the logs and is the only writer of the database. It reads each partition from
 * its checkpoint on, derives the rows that follow from the events, and writes them together with the
 * new checkpoint. It never answers for a market: a database that is away stops nothing but this,
 * and when it is back the projection catches up.
 */

import { tradeId } from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY } from '#domain/order.ts'
import type { LogReader, LogRecord } from '#log/event-log.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type {
  MarketChange,
  MarketRow,
  OrderChange,
  OrderRow,
  ProjectionBatch,
  TradeChange,
  TradeRow,
} from '#store/rows.ts'

export type ProjectionStatus = {
  readonly partition: number
  /** The database holds everything up to and with this offset. */
  readonly projected: number
  /** The last offset of the log that the store has heard of. */
  readonly appended: number
  /** Why the last attempt failed; empty when it did not. */
  readonly fault: string
}

export type StoreProtocol = {
  /** A market thread has made events durable. Telling is enough: the store also looks by itself. */
  Appended: {
    takes: { offsets: readonly (readonly [partition: number, lastOffset: number])[] }
    answers: undefined
  }
  /** Looks at the logs themselves, whatever was told. */
  Look: { takes: object; answers: undefined }
  ProjectionStatus: { takes: object; answers: { partitions: ProjectionStatus[] } }
  BatchWritten: { takes: { partition: number; to: number }; answers: undefined }
  BatchFailed: { takes: { partition: number; why: string; retry: boolean }; answers: undefined }
}

/** Said once the rows are in the database, so that the log may be truncated. */
export type Projected = {
  readonly type: 'Projected'
  readonly partition: number
  readonly offset: number
}

export type PartitionProgress = {
  projected: number
  appended: number
  writing: boolean
  fault: string
}

export type StoreState = {
  readonly log: LogReader<MarketEvent>
  readonly write: (batch: ProjectionBatch) => Promise<unknown>
  readonly partitions: Map<number, PartitionProgress>
  /** Set when the database contradicts the log: more writing would only hide it. */
  refused: string
}

/** How long to wait before a failed write is tried again. */
const RETRY_MS = 500

export function newStore(
  log: LogReader<MarketEvent>,
  write: StoreState['write'],
  checkpoints: readonly { partition: number; offset: number }[],
): StoreState {
  const partitions = new Map<number, PartitionProgress>()
  for (const { partition, offset } of checkpoints) {
    partitions.set(partition, { projected: offset, appended: offset, writing: false, fault: '' })
  }
  return { log, write, partitions, refused: '' }
}

type StoreContext = Context<StoreProtocol, Projected>

export const store: Behaviour<StoreState, StoreProtocol, Projected> = {
  Appended(state, { offsets }, context) {
    for (const [partition, lastOffset] of offsets) {
      const progress = state.partitions.get(partition)
      if (progress === undefined) continue
      progress.appended = Math.max(progress.appended, lastOffset)
      writeNext(state, partition, progress, context)
    }
    return undefined
  },

  Look(state, _message, context) {
    for (const [partition, progress] of state.partitions) {
      progress.appended = Math.max(progress.appended, state.log.lastOffset(partition))
      writeNext(state, partition, progress, context)
    }
    return undefined
  },

  ProjectionStatus(state) {
    const partitions = [...state.partitions].map(([partition, progress]) => {
      const { projected, appended, fault } = progress
      return { partition, projected, appended, fault: state.refused || fault }
    })
    return { partitions }
  },

  BatchWritten(state, { partition, to }, context) {
    const progress = state.partitions.get(partition)
    if (progress === undefined) return undefined
    progress.writing = false
    progress.fault = ''
    progress.projected = to
    context.emit({ type: 'Projected', partition, offset: to })
    writeNext(state, partition, progress, context)
    return undefined
  },

  BatchFailed(state, { partition, why, retry }, context) {
    const progress = state.partitions.get(partition)
    if (progress === undefined) return undefined
    progress.writing = false
    progress.fault = why
    if (retry) context.after(RETRY_MS, { type: 'Look', message: {} })
    else state.refused = why
    return undefined
  },
}

function writeNext(
  state: StoreState,
  partition: number,
  progress: PartitionProgress,
  context: StoreContext,
): void {
  if (progress.writing || state.refused !== '' || progress.projected >= progress.appended) return
  const records = state.log.read(partition, progress.projected + 1, PROJECTION_ROWS_MAX)
  const last = records.at(-1)
  if (last === undefined) return
  progress.writing = true
  const batch = derive(state.log.id, partition, progress.projected, records)
  context.pipe(
    state.write(batch),
    () => ({ type: 'BatchWritten', message: { partition, to: batch.to } }),
    (error) => {
      const { message, retryable } = error as { message?: string; retryable?: boolean }
      const why = message ?? String(error)
      return { type: 'BatchFailed', message: { partition, why, retry: retryable === true } }
    },
  )
}

/** The rows and changes that follow from events, in their order. */
export function derive(
  logId: string,
  partition: number,
  from: number,
  records: readonly LogRecord<MarketEvent>[],
): ProjectionBatch {
  const markets: MarketRow[] = []
  const marketChanges: MarketChange[] = []
  const orders: OrderRow[] = []
  const orderChanges: OrderChange[] = []
  const trades: TradeRow[] = []
  const tradeChanges: TradeChange[] = []
  for (const { event } of records) {
    const { marketId, seq, atMs } = event
    switch (event.type) {
      case 'MarketOpened':
        markets.push({ market: event.market, seq, atMs })
        break
      case 'OrderRested': {
        const { order, orderHash, remaining, matches, placedAtMs } = event
        if (order === undefined) {
          orderChanges.push({ orderHash, status: 'open', remaining, seq, atMs })
        } else {
          orders.push({ order, status: 'open', remaining, matches, placedAtMs, seq, atMs })
        }
        break
      }
      case 'OrdersMatched': {
        const { taker, takerRemaining: remaining, fills } = event
        const status = remaining === 0 ? 'filled' : 'open'
        if (event.known) {
          orderChanges.push({ orderHash: taker.orderHash, status, remaining, seq, atMs })
        } else {
          const matches = fills.length
          orders.push({ order: taker, status, remaining, matches, placedAtMs: atMs, seq, atMs })
        }
        for (const [fillIndex, fill] of fills.entries()) {
          const buys = taker.side === BUY
          orderChanges.push({
            orderHash: fill.makerHash,
            status: fill.makerRemaining === 0 ? 'filled' : 'open',
            remaining: fill.makerRemaining,
            seq,
            atMs,
          })
          trades.push({
            tradeId: tradeId(marketId, seq, fillIndex),
            marketId,
            seq,
            fillIndex,
            outcome: taker.outcome,
            price: fill.price,
            size: fill.size,
            buyer: buys ? taker.trader : fill.maker,
            seller: buys ? fill.maker : taker.trader,
            buyOrderHash: buys ? taker.orderHash : fill.makerHash,
            sellOrderHash: buys ? fill.makerHash : taker.orderHash,
            takerSide: taker.side,
            matchedAtMs: atMs,
          })
        }
        break
      }
      case 'OrderClosed': {
        const { orderHash, reason, remaining } = event
        orderChanges.push({ orderHash, status: reason, remaining, seq, atMs })
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
        tradeChanges.push({ tradeId, status: 'failed', txHash, reason, atMs })
        break
      }
      case 'TradeReverted': {
        const { tradeId, txHash, reason } = event
        tradeChanges.push({ tradeId, status: 'reverted', txHash, reason, atMs })
        break
      }
    }
  }
  const to = from + records.length
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
