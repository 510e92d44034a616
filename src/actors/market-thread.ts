/**
 * A market thread hosts the markets of some log partitions. It finds the market that a command is
 * for, looks up once per batch what the partition remembers, makes the batch durable with one append,
 * and brings everything back from snapshots and logs when it starts or when an append failed. What it
 * does between batches is in `housekeeping.ts`.
 */

import assert from 'node:assert/strict'
import { Book } from '#book/book.ts'
import type { BookSnapshot } from '#book/snapshot.ts'
import { Fault } from '#domain/fault.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  parseTradeId,
  type TradeId,
} from '#domain/ids.ts'
import { MARKETS_OPEN_MAX, ORDERS_PER_MARKET_MAX } from '#domain/limits.ts'
import type { Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { byAge, type OpenOrderPlace, type Outcome } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type {
  Appended,
  ClosedOrder,
  EventLog,
  LogBatch,
  SnapshotMeta,
  SnapshotWriter,
  TradeState,
} from '#log/event-log.ts'
import type { Behaviour, Context, Message } from '#runtime/actor.ts'
import {
  apply,
  bookOptions,
  firstAnswer,
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
import { readMarketSnapshot } from './market-snapshot.ts'

/** Everything that a market thread hears: what its markets hear, and what concerns all of them. */
export type MarketThreadProtocol = MarketProtocol & {
  /** Open orders of a trader in one market or in all markets of this thread. */
  OpenOrders: {
    takes: { trader: Address; marketId?: MarketId }
    answers: { orders: OpenOrder[] }
  }
  /** The oldest of them behind a place, and how many there are in all. */
  OpenOrdersPage: {
    takes: {
      trader: Address
      marketId?: MarketId
      chainId?: number
      after?: OpenOrderPlace
      limit: number
    }
    answers: { orders: OpenOrder[]; count: number }
  }
  /** How many orders rest in the markets of this thread, by chain. */
  CountOrders: {
    takes: object
    answers: { chains: (readonly [chainId: number, orders: number])[] }
  }
  /** Every market of this thread, for a reader that has just come. */
  Markets: { takes: object; answers: { views: MarketView[] } }
  /** Whether the settlement of a chain is so far behind that its markets take cancels only. */
  SettlementLag: { takes: { chainId: number; behind: boolean }; answers: undefined }
  /** The database holds everything of the partition up to and with this offset. */
  Projected: { takes: { partition: number; offset: number }; answers: undefined }
}

/** What a market thread tells those who follow it. */
export type MarketFollowerProtocol = {
  /** Events, as `packed-event.ts` reads them: the very bytes that are durable. */
  MarketEvents: { takes: { rows: readonly Uint8Array[] }; answers: undefined }
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

export type Hosted = {
  state: MarketState
  readonly partition: number
  eventsSinceSnapshot: number
  /** Up to where its newest snapshot goes. */
  snapshot: Pick<SnapshotMeta, 'seq' | 'atOffset'> | undefined
}

export type SnapshotJob = {
  readonly hosted: Hosted
  readonly writer: SnapshotWriter
  readonly books: BookSnapshot[]
  /** Chunks that are copied and not yet handed over, each with its outcome. */
  readonly copied: { readonly outcome: Outcome; readonly chunk: Buffer<ArrayBuffer> }[]
  /** Whether all of it was handed over, and it only waits for the disk. */
  isEnding: boolean
}

export type MarketThread = {
  readonly markets: Map<MarketId, Hosted>
  readonly recall: Recall
  readonly options: MarketThreadOptions
  /** By partition: the last offset that the database holds. */
  readonly projected: Map<number, number>
  /** Chains whose settlement is behind. Whoever settles says so again whenever it is linked. */
  readonly behind: Set<number>
  /** Partitions that remember as many closed orders as they can. */
  readonly crowded: Set<number>
  /** Partitions that cannot be opened at present, and why. None of their markets is here meanwhile. */
  readonly away: Map<number, string>
  /** What last went wrong with a snapshot or a truncation, until `takeTrouble`. Markets go on. */
  trouble: string
  committing: boolean
  job: SnapshotJob | undefined
  /** Markets that have said enough to deserve a new snapshot. */
  readonly due: Set<MarketId>
  /** Partitions that may have something to truncate, or to forget. */
  readonly truncatable: Set<number>
  readonly forgettable: Set<number>
}

type ThreadContext = Context<MarketThreadProtocol, MarketEvent>

export function newMarketThread(options: MarketThreadOptions): MarketThread {
  const thread: MarketThread = {
    markets: new Map(),
    recall: { closed: new Map(), trades: new Map() },
    options,
    projected: new Map(),
    behind: new Set(),
    crowded: new Set(),
    away: new Map(),
    trouble: '',
    committing: false,
    job: undefined,
    due: new Set(),
    truncatable: new Set(),
    forgettable: new Set(),
  }
  for (const partition of options.log.owned) loadPartition(thread, partition)
  for (const [marketId, { partition }] of thread.markets) {
    const routed = options.partitionOf(marketId)
    if (routed === partition) continue
    throw new Fault(
      'MARKET_MOVED',
      `${marketId} has its history in partition ${partition}, but commands for it would go to ` +
        `partition ${routed}: a market cannot be pinned to another one once it is open`,
      { retryable: false },
    )
  }
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
      const partition = thread.options.partitionOf(opened.id)
      if (!thread.options.log.owned.includes(partition)) return reject('MARKET_NOT_FOUND')
      // A market that is over may have been here before, and its history may be gone.
      if (opened.expiration <= Math.floor(context.nowMs / 1_000)) return reject('MARKET_CLOSED')
      if (thread.markets.size >= MARKETS_OPEN_MAX) return reject('OVERLOADED')
      hosted = host(thread, opened, partition)
    }
    return market.OpenMarket(hosted.state, message, context)
  },

  PlaceOrder(thread, message, context) {
    const hosted = thread.markets.get(message.order.marketId)
    if (hosted === undefined) return reject('MARKET_NOT_FOUND')
    if (thread.crowded.has(hosted.partition)) {
      const full = reject('OVERLOADED', undefined, 'the log remembers as many orders as it can')
      return firstAnswer(hosted.state, message.order, context) ?? full
    }
    return market.PlaceOrder(hosted.state, message, context)
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

  OpenOrders(thread, asked, context: ThreadContext) {
    return { orders: openOrders(thread, asked, context) }
  },

  OpenOrdersPage(thread, { after, limit, ...asked }, context: ThreadContext) {
    const all = openOrders(thread, asked, context)
    const rest = after === undefined ? all : all.filter((order) => byAge(order, after) > 0)
    return { orders: rest.sort(byAge).slice(0, limit), count: all.length }
  },

  CountOrders(thread) {
    const chains = new Map<number, number>()
    for (const { state } of thread.markets.values()) {
      const { chainId } = state.market
      const [yes, no] = state.books
      const resting = yes.count + no.count
      chains.set(chainId, (chains.get(chainId) ?? 0) + resting)
    }
    return { chains: [...chains] }
  },

  Markets(thread) {
    return { views: viewsOf(thread) }
  },

  SettlementLag: hearLag,
  Projected: hearProjected,
}

function hearLag(
  thread: MarketThread,
  { chainId, behind }: MarketThreadProtocol['SettlementLag']['takes'],
): undefined {
  if (behind) thread.behind.add(chainId)
  else thread.behind.delete(chainId)
}

function hearProjected(
  thread: MarketThread,
  { partition, offset }: MarketThreadProtocol['Projected']['takes'],
): undefined {
  if (thread.options.log.owned.includes(partition)) thread.projected.set(partition, offset)
}

/**
 * Hears at once what concerns no market and is told only once: it must not be lost because a mailbox
 * is full or a file away. Answers whether it was such news.
 */
export function hearNews(thread: MarketThread, command: Message<MarketThreadProtocol>): boolean {
  if (command.type === 'SettlementLag') hearLag(thread, command.message)
  else if (command.type === 'Projected') hearProjected(thread, command.message)
  else return false
  return true
}

function openOrders(
  thread: MarketThread,
  { trader, marketId, chainId }: { trader: Address; marketId?: MarketId; chainId?: number },
  { nowMs }: ThreadContext,
): OpenOrder[] {
  const nowSec = Math.floor(nowMs / 1_000)
  const asked =
    marketId === undefined ? [...thread.markets.values()] : [thread.markets.get(marketId)]
  const orders: OpenOrder[] = []
  for (const hosted of asked) {
    if (hosted === undefined) continue
    if (chainId !== undefined && hosted.state.market.chainId !== chainId) continue
    for (const order of openOrdersOf(hosted.state, trader, nowSec)) orders.push(order)
  }
  return orders
}

function host(thread: MarketThread, opened: Market, partition: number): Hosted {
  const { rules, seed, ordersMax = ORDERS_PER_MARKET_MAX } = thread.options
  const { behind } = thread
  const state = newMarket(opened, { ...rules, seed, ordersMax, behind }, thread.recall)
  const hosted: Hosted = { state, partition, eventsSinceSnapshot: 0, snapshot: undefined }
  thread.markets.set(opened.id, hosted)
  return hosted
}

/** The market that a command is for; undefined when it is for the thread. */
export function marketIdOf(command: Message<MarketThreadProtocol>): MarketId | undefined {
  if (command.type === 'PlaceOrder') return command.message.order.marketId
  if (command.type === 'OpenMarket') return command.message.market.id
  return 'marketId' in command.message ? command.message.marketId : undefined
}

/** A batch that is smaller than this is handled as it came. */
const GROUPED_MIN = 32

/**
 * The commands of each market after one another, in the order in which they came. Markets do not see
 * each other, and a book whose memory is at hand is several times as fast.
 */
export function byMarket<Command extends Message<MarketThreadProtocol>>(
  batch: readonly Command[],
): readonly Command[] {
  if (batch.length < GROUPED_MIN) return batch
  const groups = new Map<MarketId | undefined, Command[]>()
  for (const command of batch) {
    const marketId = marketIdOf(command)
    const group = groups.get(marketId)
    if (group === undefined) groups.set(marketId, [command])
    else group.push(command)
  }
  return groups.size === 1 ? batch : [...groups.values()].flat()
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
  thread.crowded.clear()
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
        if (parseTradeId(report.tradeId)?.marketId !== marketId) break
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
    if (log.closedOrderRoom(partition) <= 0) thread.crowded.add(partition)
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
  let hosted: Hosted | undefined
  for (const event of events) {
    // The events of a market follow one another, and carry one and the same text of its id.
    if (hosted?.state.market.id !== event.marketId) hosted = thread.markets.get(event.marketId)
    assert(hosted !== undefined, `an event of ${event.marketId}, which is not here`)
    let batch = batches.get(hosted.partition)
    if (batch === undefined) {
      batch = { events: [], closed: new Map(), reopened: new Set(), trades: new Map() }
      batches.set(hosted.partition, batch)
    }
    batch.events.push(event)
    remember(thread.recall, batch, event)
    hosted.eventsSinceSnapshot++
    if (hosted.eventsSinceSnapshot >= thread.options.snapshotEvery) thread.due.add(event.marketId)
  }
  thread.committing = true
  const appends = [...batches].map(([partition, batch]) => {
    const append: LogBatch<MarketEvent> = {
      events: batch.events,
      nowMs,
      wantsRows: true,
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

/**
 * What the partition must remember of an event beside the event itself. The batch is over, so what
 * is recalled of a hash or a trade now is the last word on it.
 */
function remember(recall: Recall, batch: PartitionBatch, event: MarketEvent): void {
  switch (event.type) {
    case 'OrderClosed': {
      const closed = recall.closed.get(event.orderHash)
      if (closed !== undefined) batch.closed.set(event.orderHash, closed)
      break
    }
    case 'OrderRested':
      if (event.returned && !recall.closed.has(event.orderHash)) {
        batch.reopened.add(event.orderHash)
      }
      break
    case 'TradeSubmitted':
    case 'TradeConfirmed':
    case 'TradeFailed':
    case 'TradeReverted': {
      const trade = recall.trades.get(event.tradeId)
      assert(trade !== undefined, `${event.tradeId} was told of and is not recalled`)
      batch.trades.set(event.tradeId, trade)
      break
    }
    default:
      break
  }
}

/**
 * After a failed append: drops all of the partition and goes back to what its file holds. Answers
 * whether it could be opened; if it could not, `away` says why, none of its markets is here, and it
 * is to be tried again. A file that is damaged is no such case: that fault is thrown.
 */
export function recover(thread: MarketThread, partition: number): boolean {
  thread.recall.closed.clear()
  thread.recall.trades.clear()
  if (thread.job?.hosted.partition === partition) thread.job = undefined
  dropMarkets(thread, partition)
  try {
    thread.options.log.reopen(partition)
    loadPartition(thread, partition)
    thread.away.delete(partition)
    return true
  } catch (error) {
    goAway(thread, partition, error)
    return false
  }
}

export function goAway(thread: MarketThread, partition: number, error: unknown): void {
  if (!(error instanceof Fault && error.retryable)) throw error
  dropMarkets(thread, partition)
  thread.away.set(partition, error.message)
}

function dropMarkets(thread: MarketThread, partition: number): void {
  for (const [marketId, hosted] of thread.markets) {
    if (hosted.partition !== partition) continue
    thread.markets.delete(marketId)
    thread.due.delete(marketId)
  }
  thread.truncatable.delete(partition)
  thread.forgettable.delete(partition)
}

/** Every market, or every market of a partition, as a reader sees it. */
export function viewsOf(thread: MarketThread, partition?: number): MarketView[] {
  const views: MarketView[] = []
  for (const hosted of thread.markets.values()) {
    if (partition === undefined || hosted.partition === partition) views.push(viewOf(hosted.state))
  }
  return views
}

/** Records read at once on recovery. */
const REPLAY_BATCH = 4_096

function loadPartition(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  for (const meta of log.snapshots(partition)) restore(thread, partition, meta)
  const { lastOffset } = log.state(partition)
  // What lies before is in the snapshots, and only waits for the database to have it.
  for (let offset = log.truncationFloor(partition).offset; offset <= lastOffset; ) {
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
  // A snapshot may hold more of its market than another market still needs of the log.
  if (event.seq <= hosted.state.seq) return
  apply(hosted.state, event)
  hosted.eventsSinceSnapshot++
}

function restore(thread: MarketThread, partition: number, meta: SnapshotMeta): void {
  const snapshot = thread.options.log.readSnapshot(partition, meta.marketId)
  assert(snapshot !== undefined)
  const { head, books } = readMarketSnapshot(snapshot)
  const hosted = host(thread, head.market, partition)
  const options = bookOptions(hosted.state.rules)
  hosted.snapshot = meta
  hosted.state = {
    ...hosted.state,
    seq: head.seq,
    closed: head.closed ?? undefined,
    updatedAtMs: head.updatedAtMs,
    unsettled: head.unsettled,
    books: [Book.restore(books[0], options), Book.restore(books[1], options)],
  }
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
