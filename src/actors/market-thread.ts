/**
 * A market thread hosts the markets of some log partitions. It finds the market that a command is
 * for, looks up once per batch what the partitions remember, makes the batch durable with one append
 * per partition, and brings everything back from snapshots and logs when it starts or when an append
 * failed. Between batches, in short steps, it takes snapshots, truncates and forgets.
 */

import assert from 'node:assert/strict'
import { Book } from '#book/book.ts'
import type { BookSnapshot } from '#book/snapshot.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import { MARKETS_OPEN_MAX, ORDERS_PER_MARKET_MAX } from '#domain/limits.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { MarketEvent, TradeOutcome } from '#domain/market-event.ts'
import { OUTCOMES } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type {
  Appended,
  ClosedOrder,
  EventLog,
  LogBatch,
  SnapshotWriter,
  TradeState,
} from '#log/event-log.ts'
import type { Behaviour, Context, Message } from '#runtime/actor.ts'
import {
  apply,
  type MarketProtocol,
  type MarketRules,
  type MarketState,
  type MarketView,
  market,
  newMarket,
  type OpenOrder,
  openOrdersOf,
  type Recall,
  viewOf,
} from './market.ts'

/** Everything that a market thread hears: what its markets hear, and what concerns all of them. */
export type MarketThreadProtocol = MarketProtocol & {
  /** Open orders of a trader in one market or in all markets of this thread. */
  OpenOrders: {
    takes: { trader: Address; marketId?: MarketId }
    answers: { orders: OpenOrder[] }
  }
  /** Every market of this thread, for a reader that has just come. */
  Markets: { takes: object; answers: { views: MarketView[] } }
  /** The database holds everything of the partition up to and with this offset. */
  Projected: { takes: { partition: number; offset: number }; answers: undefined }
}

/** What a market thread tells those who follow it. */
export type MarketNews = {
  MarketEvents: { takes: { events: readonly MarketEvent[] }; answers: undefined }
  /** The thread went back to what its log holds; what was told before may not be true any more. */
  MarketsReloaded: { takes: { views: readonly MarketView[] }; answers: undefined }
}

export type MarketThreadOptions = {
  readonly log: EventLog<MarketEvent>
  readonly partitionOf: (marketId: MarketId) => number
  readonly rules: Omit<MarketRules, 'seed' | 'ordersMax'>
  readonly ordersMax?: number
  /** A number that nobody outside can guess. */
  readonly seed: number
  readonly snapshotEvery: number
}

type Hosted = { state: MarketState; partition: number; eventsSinceSnapshot: number }

type SnapshotJob = {
  readonly hosted: Hosted
  readonly seq: Sequence
  readonly writer: SnapshotWriter
  readonly books: BookSnapshot[]
}

export type MarketThread = {
  readonly markets: Map<MarketId, Hosted>
  readonly recall: Recall
  readonly options: MarketThreadOptions
  readonly projected: Map<number, number>
  committing: boolean
  job: SnapshotJob | undefined
  /** Markets that have said enough to deserve a new snapshot. */
  readonly due: Set<MarketId>
  /** Partitions that may have something to truncate. */
  readonly truncatable: Set<number>
}

type ThreadContext = Context<MarketThreadProtocol, MarketEvent>

export function newMarketThread(options: MarketThreadOptions): MarketThread {
  const thread: MarketThread = {
    markets: new Map(),
    recall: { closed: new Map(), trades: new Map() },
    options,
    projected: new Map(),
    committing: false,
    job: undefined,
    due: new Set(),
    truncatable: new Set(),
  }
  for (const partition of options.log.owned) loadPartition(thread, partition)
  return thread
}

/** Runs the market's own handler, or says that there is no such market. */
function inMarket<Answer>(
  thread: MarketThread,
  marketId: MarketId,
  handle: (state: MarketState) => Answer,
): Answer | Rejection {
  const hosted = thread.markets.get(marketId)
  return hosted === undefined ? reject('MARKET_NOT_FOUND') : handle(hosted.state)
}

export const marketThread: Behaviour<MarketThread, MarketThreadProtocol, MarketEvent> = {
  OpenMarket(thread, message, context) {
    const { market: opened } = message
    let hosted = thread.markets.get(opened.id)
    if (hosted === undefined) {
      assert(thread.markets.size < MARKETS_OPEN_MAX, 'too many markets')
      hosted = host(thread, opened, thread.options.partitionOf(opened.id))
    }
    return market.OpenMarket(hosted.state, message, context)
  },

  PlaceOrder(thread, message, context) {
    const { marketId } = message.order
    const partition = thread.markets.get(marketId)?.partition
    if (partition !== undefined && thread.options.log.closedOrderRoom(partition) <= 0) {
      return reject('OVERLOADED', undefined, 'the log remembers as many orders as it can')
    }
    return inMarket(thread, marketId, (state) => market.PlaceOrder(state, message, context))
  },

  CancelOrder(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.CancelOrder(state, message, context),
    )
  },

  CancelOrders(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.CancelOrders(state, message, context),
    )
  },

  CloseMarket(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.CloseMarket(state, message, context),
    )
  },

  Expire(thread, message, context) {
    inMarket(thread, message.marketId, (state) => market.Expire(state, message, context))
    return undefined
  },

  Snapshot(thread, message, context) {
    return inMarket(thread, message.marketId, (state) => market.Snapshot(state, message, context))
  },

  ReportTrade(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.ReportTrade(state, message, context),
    )
  },

  OpenOrders(thread, { trader, marketId }, context: ThreadContext) {
    const nowSec = Math.floor(context.nowMs / 1_000)
    const asked =
      marketId === undefined ? [...thread.markets.values()] : [thread.markets.get(marketId)]
    const orders: OpenOrder[] = []
    for (const hosted of asked) {
      if (hosted !== undefined) orders.push(...openOrdersOf(hosted.state, trader, nowSec))
    }
    return { orders }
  },

  Markets(thread) {
    return { views: [...thread.markets.values()].map(({ state }) => viewOf(state)) }
  },

  Projected(thread, { partition, offset }) {
    if (!thread.options.log.owned.includes(partition)) return undefined
    thread.projected.set(partition, offset)
    thread.truncatable.add(partition)
    return undefined
  },
}

function host(thread: MarketThread, opened: Market, partition: number): Hosted {
  const { rules, seed, ordersMax = ORDERS_PER_MARKET_MAX } = thread.options
  const state = newMarket(opened, { ...rules, seed, ordersMax }, thread.recall)
  const hosted = { state, partition, eventsSinceSnapshot: 0 }
  thread.markets.set(opened.id, hosted)
  return hosted
}

/** Looks up, once per batch, what the partitions know about the hashes and trades in it. */
export function prepare(
  thread: MarketThread,
  batch: readonly Message<MarketThreadProtocol>[],
): void {
  const { log } = thread.options
  const { closed, trades } = thread.recall
  closed.clear()
  trades.clear()
  const hashes = new Map<number, OrderHash[]>()
  const tradeIds = new Map<number, TradeId[]>()
  for (const command of batch) {
    switch (command.type) {
      case 'PlaceOrder':
        gather(thread, hashes, command.message.order.marketId, command.message.order.orderHash)
        break
      case 'CancelOrder':
        gather(thread, hashes, command.message.marketId, command.message.orderHash)
        break
      case 'ReportTrade': {
        const { marketId, report } = command.message
        gather(thread, tradeIds, marketId, report.tradeId)
        gather(thread, hashes, marketId, report.buy.orderHash)
        gather(thread, hashes, marketId, report.sell.orderHash)
        break
      }
      default:
        break
    }
  }
  for (const [partition, wanted] of hashes) {
    for (const found of log.closedOrders(partition, wanted)) {
      if (found !== undefined) closed.set(found.orderHash, found)
    }
  }
  for (const [partition, wanted] of tradeIds) {
    for (const found of log.tradeStatuses(partition, wanted)) {
      if (found !== undefined) trades.set(found.tradeId, found)
    }
  }
}

function gather<Id>(
  thread: MarketThread,
  into: Map<number, Id[]>,
  marketId: MarketId,
  id: Id,
): void {
  const partition = thread.markets.get(marketId)?.partition
  if (partition === undefined) return
  const ids = into.get(partition)
  if (ids === undefined) into.set(partition, [id])
  else ids.push(id)
}

type PartitionBatch = {
  events: MarketEvent[]
  closed: Map<OrderHash, ClosedOrder>
  reopened: Set<OrderHash>
  trades: Map<TradeId, TradeState>
}

/** Makes the events of a batch durable, one append per partition. */
export function commit(
  thread: MarketThread,
  events: readonly MarketEvent[],
  nowMs: number,
): Promise<Appended[]> {
  const batches = new Map<number, PartitionBatch>()
  for (const event of events) {
    const hosted = thread.markets.get(event.marketId)
    assert(hosted !== undefined, `an event of ${event.marketId}, which is not here`)
    let batch = batches.get(hosted.partition)
    if (batch === undefined) {
      batch = { events: [], closed: new Map(), reopened: new Set(), trades: new Map() }
      batches.set(hosted.partition, batch)
    }
    batch.events.push(event)
    remember(thread, batch, event)
    hosted.eventsSinceSnapshot++
    if (hosted.eventsSinceSnapshot >= thread.options.snapshotEvery) thread.due.add(event.marketId)
  }
  thread.committing = true
  const appends = [...batches].map(([partition, batch]) => {
    const append: LogBatch<MarketEvent> = {
      events: batch.events,
      nowMs,
      closed: [...batch.closed.values()],
      reopened: [...batch.reopened],
      trades: [...batch.trades.values()],
    }
    return thread.options.log.append(partition, append)
  })
  return Promise.all(appends).finally(() => {
    thread.committing = false
  })
}

/** What the partition must remember of an event beside the event itself; the last word counts. */
function remember(thread: MarketThread, batch: PartitionBatch, event: MarketEvent): void {
  switch (event.type) {
    case 'OrderClosed': {
      const hosted = thread.markets.get(event.marketId)
      const { orderHash, marketId, trader, side, outcome, price, size, reason } = event
      const { matches, placedAtMs, expiresAtSec } = event
      const marketEndSec = hosted?.state.market.expiration ?? expiresAtSec
      const forgetAfterSec = Math.min(expiresAtSec, marketEndSec)
      const life = { orderHash, marketId, trader, side, outcome, price, size, reason }
      const first = { matches, placedAtMs, expiresAtSec }
      batch.closed.set(orderHash, { ...life, ...first, forgetAfterSec })
      batch.reopened.delete(orderHash)
      break
    }
    case 'OrderRested':
      if (event.returned && event.added === event.remaining) {
        batch.reopened.add(event.orderHash)
        batch.closed.delete(event.orderHash)
      }
      break
    case 'TradeSubmitted':
    case 'TradeConfirmed':
    case 'TradeFailed':
    case 'TradeReverted': {
      const { tradeId, txHash, atMs } = event
      batch.trades.set(tradeId, { tradeId, status: STATUS_OF[event.type], txHash, atMs })
      break
    }
    default:
      break
  }
}

const STATUS_OF: Record<TradeOutcome['type'], TradeStatus> = {
  TradeSubmitted: 'submitted',
  TradeConfirmed: 'confirmed',
  TradeFailed: 'failed',
  TradeReverted: 'reverted',
}

/** After a failed append: back to what the log holds. Answers every market as it is now. */
export function recover(thread: MarketThread): MarketView[] {
  thread.recall.closed.clear()
  thread.recall.trades.clear()
  thread.job?.writer.abort()
  thread.job = undefined
  thread.due.clear()
  thread.markets.clear()
  for (const partition of thread.options.log.owned) {
    thread.options.log.reopen(partition)
    loadPartition(thread, partition)
  }
  return [...thread.markets.values()].map(({ state }) => viewOf(state))
}

/** Records read at once on recovery. */
const REPLAY_BATCH = 4_096

function loadPartition(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  for (const meta of log.snapshots(partition)) restore(thread, partition, meta.marketId)
  const { firstOffset, lastOffset } = log.state(partition)
  for (let offset = firstOffset; offset <= lastOffset; ) {
    const records = log.read(partition, offset, REPLAY_BATCH)
    assert(records.length > 0, `partition ${partition} ends before ${lastOffset}`)
    for (const { event } of records) replay(thread, partition, event)
    offset += records.length
  }
}

function replay(thread: MarketThread, partition: number, event: MarketEvent): void {
  let hosted = thread.markets.get(event.marketId)
  if (hosted === undefined) {
    assert(event.type === 'MarketOpened', `${event.marketId} begins with ${event.type}`)
    hosted = host(thread, event.market, partition)
  }
  // What a snapshot already holds is in the log until it is truncated.
  if (event.seq <= hosted.state.seq) return
  apply(hosted.state, event)
  hosted.eventsSinceSnapshot++
}

/** The first chunk of a market's snapshot; those of its books follow, each with its outcome. */
type SnapshotHead = {
  readonly version: 1
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | null
  readonly updatedAtMs: number
}

/** A book's chunk is stored behind eight bytes, of which the first is the outcome. */
const OUTCOME_BYTES = 8

function restore(thread: MarketThread, partition: number, marketId: MarketId): void {
  const snapshot = thread.options.log.readSnapshot(partition, marketId)
  assert(snapshot !== undefined)
  let head: SnapshotHead | undefined
  const chunks: [Uint8Array[], Uint8Array[]] = [[], []]
  for (const chunk of snapshot.chunks) {
    if (head === undefined) {
      head = JSON.parse(chunk.toString('utf8')) as SnapshotHead
      assert.equal(head.version, 1, 'a known version of a market snapshot')
    } else {
      const outcome = chunk[0]
      assert(outcome === 0 || outcome === 1)
      chunks[outcome].push(chunk.subarray(OUTCOME_BYTES))
    }
  }
  assert(head !== undefined)
  const hosted = host(thread, head.market, partition)
  const { seed, ordersMax } = hosted.state.rules
  const restored: MarketState = {
    ...hosted.state,
    seq: head.seq,
    closed: head.closed ?? undefined,
    updatedAtMs: head.updatedAtMs,
    books: [
      Book.restore(chunks[0], { ordersMax, seed }),
      Book.restore(chunks[1], { ordersMax, seed }),
    ],
  }
  thread.markets.set(marketId, { ...hosted, state: restored })
}

/** Orders that one step of a snapshot copies: a fraction of a millisecond. */
const SNAPSHOT_STEP_ORDERS = 4_096
/** Records that one step removes. */
const TRUNCATE_STEP = 20_000

/**
 * One short step of what can wait: a part of a snapshot, or of a truncation. It must run between
 * batches. Answers whether there is more to do.
 */
export function housekeep(thread: MarketThread): boolean {
  if (thread.committing) return true
  if (thread.job !== undefined) return stepSnapshot(thread, thread.job)
  const [marketId] = thread.due
  if (marketId !== undefined) {
    thread.due.delete(marketId)
    beginSnapshot(thread, marketId)
    return true
  }
  const [partition] = thread.truncatable
  if (partition === undefined) return false
  const { log } = thread.options
  const floor = log.truncationFloor(partition).offset
  const projected = thread.projected.get(partition) ?? 0
  const { more } = log.truncate(partition, floor, projected, TRUNCATE_STEP)
  if (!more) thread.truncatable.delete(partition)
  return more || thread.truncatable.size > 0
}

function beginSnapshot(thread: MarketThread, marketId: MarketId): void {
  const hosted = thread.markets.get(marketId)
  if (hosted === undefined) return
  const { state, partition } = hosted
  const { log } = thread.options
  const { lastOffset } = log.state(partition)
  const writer = log.beginSnapshot(partition, marketId, lastOffset, state.seq)
  const head: SnapshotHead = {
    version: 1,
    market: state.market,
    seq: state.seq,
    closed: state.closed ?? null,
    updatedAtMs: state.updatedAtMs,
  }
  writer.writeChunk(Buffer.from(JSON.stringify(head)))
  hosted.eventsSinceSnapshot = 0
  const books = state.books.map((book) => book.beginSnapshot())
  thread.job = { hosted, seq: state.seq, writer, books }
}

function stepSnapshot(thread: MarketThread, job: SnapshotJob): boolean {
  for (const outcome of OUTCOMES) {
    const book = job.books[outcome]
    if (book === undefined || book.done) continue
    for (const chunk of book.copySome(SNAPSHOT_STEP_ORDERS)) {
      const marked = Buffer.alloc(OUTCOME_BYTES + chunk.byteLength)
      marked[0] = outcome
      chunk.copy(marked, OUTCOME_BYTES)
      job.writer.writeChunk(marked)
    }
    return true
  }
  job.writer.commit()
  thread.job = undefined
  thread.truncatable.add(job.hosted.partition)
  return true
}

/** Markets that have something to expire now. */
export function marketsToExpire(thread: MarketThread, nowMs: number): MarketId[] {
  const nowSec = Math.floor(nowMs / 1_000)
  const due: MarketId[] = []
  for (const [marketId, { state }] of thread.markets) {
    if (state.closed !== undefined) continue
    const [yes, no] = state.books
    const next = Math.min(
      state.market.expiration,
      yes.nextExpirySec ?? Number.POSITIVE_INFINITY,
      no.nextExpirySec ?? Number.POSITIVE_INFINITY,
    )
    if (next <= nowSec) due.push(marketId)
  }
  return due
}

/** Rows of closed orders that one step looks at. */
const FORGET_STEP = 2_000

/** One short step per partition through what may be forgotten by now. */
export function forget(thread: MarketThread, nowMs: number): void {
  if (thread.committing) return
  for (const partition of thread.options.log.owned) {
    thread.options.log.forgetClosed(partition, Math.floor(nowMs / 1_000), FORGET_STEP)
    thread.options.log.sweep(partition, FORGET_STEP)
  }
}
