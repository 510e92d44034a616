/**
 * Hosts the markets of some log partitions. It passes commands to their markets, and recovers from snapshots and logs
 * at the start or after a failed append. `market-batch.ts` handles a batch, `housekeeping.ts` the work between batches.
 */

import assert from 'node:assert/strict'
import { Book } from '#book/book.ts'
import type { BookSnapshot } from '#book/snapshot.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { EXPIRATIONS_MAX, MARKETS_OPEN_MAX, ORDERS_PER_MARKET_MAX } from '#domain/limits.ts'
import type { Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { NO, type Outcome, YES } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { EventLog, SnapshotMeta, SnapshotWriter } from '#log/event-log.ts'
import type { PlacedOrder } from '#protocol/market.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Behaviour, Context, Message } from '#runtime/actor.ts'
import { firstAnswer } from '../first-answer.ts'
import { apply, bookOptions, market, newMarket } from '../market.ts'
import { PendingCounts } from '../pending.ts'
import { readMarketSnapshot, type SnapshotRow } from '../snapshot.ts'
import type { MarketRules, MarketState, Recall } from '../state.ts'
import type { CancelQuota } from './cancel-quota.ts'
import { type Due, DueMarkets, planExpiry } from './due-markets.ts'
import { someViews } from './market-views.ts'
import { booksOf, countOrders, orderCounter, pageOfOrders } from './open-orders.ts'
import type { Retention } from './retention.ts'
import { applyLag, applyProjected, isLate, type ProjectionMark } from './thread-facts.ts'
import type { Barred } from './trader-budgets.ts'
import { holdTrader, TraderHolds, unsettledSales } from './trader-holds.ts'
import { Residence, TraderIndex } from './trader-index.ts'
import {
  applyPaused,
  applySpent,
  pausedTraders,
  pendingMarketsOf,
  standingOf,
} from './trader-standing.ts'

type MarketThreadOptions = {
  readonly log: EventLog<MarketEvent>
  readonly partitionOf: (marketId: MarketId) => number
  readonly rules: Omit<MarketRules, 'seed' | 'ordersMax'>
  readonly ordersMax?: number
  /** Seed of the books' hash indices. Clients must not be able to guess it. */
  readonly seed: number
  readonly snapshotEvery: number
  /** Minimum age of events that are removed from the log; undefined if there is no minimum. */
  readonly retention?: Retention
  /** Quota of orders that a trader cancels without a fill; undefined if limits are off. */
  readonly cancelQuota?: CancelQuota
  /**
   * Shows whether the disk is full. While it is full, new orders and markets are refused; cancels and reports are
   * accepted.
   */
  readonly room?: { readonly isFull: boolean }
  /** Clock for `reservedUntilMs`, when an order's reservation ends. It is monotonic: a wall clock may be set back. */
  readonly monotonicMs: () => number
  /** Called several times during long work to show the supervisor that the thread is not stuck. */
  readonly progress?: () => void
  /**
   * Maximum lag of the database behind the log. Beyond it, markets on `chains` accept cancels only, because settlement
   * of these chains reads trades from the database. Undefined if there is no limit.
   */
  readonly lag?: { readonly maxMs: number; readonly chains: Pick<ReadonlySet<number>, 'has'> }
}

export type Hosted = Due & {
  state: MarketState
  readonly partition: number
  eventsSinceSnapshot: number
  /** Position of the market's newest snapshot in the log. */
  snapshot: Pick<SnapshotMeta, 'seq' | 'atOffset'> | undefined
}

export type SnapshotJob = {
  readonly hosted: Hosted
  readonly writer: SnapshotWriter
  readonly books: BookSnapshot[]
  /** Rows of pending trades, session orders and tags that must still be written to the snapshot. */
  readonly pending: SnapshotRow[]
  /** Copied chunks of orders that must still be written to the snapshot, with the outcome (YES or NO) of the book. */
  readonly copied: { readonly outcome: Outcome; readonly chunk: Buffer<ArrayBuffer> }[]
  /** True if all data is written and the job only waits until the snapshot is on the disk. */
  isEnding: boolean
}

export type MarketThread = {
  readonly markets: Map<MarketId, Hosted>
  /** Finds the books in which a trader has orders. */
  readonly traders: TraderIndex<BookPlace>
  /** Expiry checks of all markets. */
  readonly expiring: DueMarkets<Hosted>
  /** Maximum number of orders that `Expire` commands may still remove in the current batch. */
  expirationsLeft: number
  /** Resolved markets that wait to be unloaded. */
  readonly over: Set<Hosted>
  readonly recall: Recall
  readonly options: MarketThreadOptions
  /** Rules of the markets, by partition. */
  readonly rules: Map<number, MarketRules>
  /** For each partition, the last offset that the database has. */
  readonly projected: Map<number, number>
  /** Chains whose settlement lags too far: markets there accept cancels only. Settlement resends them when linked. */
  readonly behind: Set<number>
  readonly epochs: Map<number, number>
  /** Pending trades of each trader in the markets of this thread, by chain. */
  readonly counts: Map<number, PendingCounts>
  readonly holds: TraderHolds
  /** Traders whose failed fills have used up their daily budget, and whose resting orders must still be removed. */
  readonly barred: Barred[]
  /** Partitions for which the database lags by more than the maximum. */
  readonly late: Set<number>
  /** Log positions from which the lag of each partition is computed (`projection-lag.ts`). */
  readonly marks: Map<number, ProjectionMark>
  /** Partitions that have reached the maximum number of closed orders they can remember. */
  readonly crowded: Set<number>
  /** Partitions that cannot be opened now, with the reason. Their markets are not loaded. */
  readonly away: Map<number, string>
  /**
   * Reason of the last failure of a snapshot or a truncation, until `takeTrouble` reads it. Markets continue to work.
   */
  trouble: string
  /** Unloaded markets, until `takeGone` reads the list. */
  gone: MarketId[]
  committing: boolean
  job: SnapshotJob | undefined
  /** Markets with enough events for a new snapshot. */
  readonly due: Set<MarketId>
  /** Partitions that may have records to truncate or orders to forget. */
  readonly truncatable: Set<number>
  readonly forgettable: Set<number>
}

type BookPlace = { readonly hosted: Hosted; readonly outcome: Outcome }

type HostContext = Context<MarketThreadProtocol, MarketEvent>

export function newMarketThread(options: MarketThreadOptions): MarketThread {
  const thread: MarketThread = {
    markets: new Map(),
    traders: new TraderIndex(),
    expiring: new DueMarkets(),
    expirationsLeft: EXPIRATIONS_MAX,
    over: new Set(),
    recall: { closed: new Map(), trades: new Map() },
    options,
    rules: new Map(),
    projected: new Map(),
    behind: new Set(),
    epochs: new Map(),
    counts: new Map(),
    holds: new TraderHolds(),
    barred: [],
    late: new Set(),
    marks: new Map(),
    crowded: new Set(),
    away: new Map(),
    trouble: '',
    gone: [],
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
      `market ${marketId} has its history in partition ${partition}, but the settings assign it ` +
        `to partition ${routed}: an open market cannot move, so pin it to its partition in ` +
        'SIBYL_MARKET_PINS',
      { retryable: false },
    )
  }
  return thread
}

/** Runs the handler in the command's market; rejects the command if the market is unknown. */
function inMarket<Answer>(
  thread: MarketThread,
  marketId: MarketId,
  handle: (state: MarketState) => Answer,
): Answer | Rejection {
  const hosted = thread.markets.get(marketId)
  return hosted === undefined ? reject('MARKET_NOT_FOUND') : handle(hosted.state)
}

const OWNER = { owner: true } as const

/** Returns why the thread refuses a new order before the order reaches its market; undefined if it accepts. */
function refusedHere(
  thread: MarketThread,
  { partition, state }: Hosted,
  { order, reservedUntilMs }: PlacedOrder,
  nowMs: number,
): Rejection | undefined {
  if (thread.crowded.has(partition)) {
    return reject('OVERLOADED', undefined, 'too many open orders on this exchange: retry later')
  }
  if (thread.options.room?.isFull === true) return reject('STORAGE_FULL')
  if (reservedUntilMs !== undefined && thread.options.monotonicMs() > reservedUntilMs) {
    const detail = 'the order reached its market too late, so it was not placed: retry shortly'
    return reject('OVERLOADED', undefined, detail)
  }
  const isSpent = thread.options.cancelQuota?.isSpent(order.trader, nowMs)
  if (isSpent === true) return reject('CANCEL_QUOTA_SPENT', 'order.trader')
  return thread.holds.flaw(state.market.chainId, order, nowMs)
}

export const marketThread: Behaviour<MarketThread, MarketThreadProtocol, MarketEvent> = {
  OpenMarket(thread, message, context) {
    const { market: opened } = message
    let hosted = thread.markets.get(opened.id)
    if (hosted === undefined) {
      const partition = thread.options.partitionOf(opened.id)
      if (!thread.options.log.owned.includes(partition)) return reject('MARKET_NOT_FOUND')
      // Do not open an expired market: it may have traded here before, and have been unloaded after it expired.
      if (opened.expiration <= Math.floor(context.nowMs / 1_000)) return reject('MARKET_CLOSED')
      if (thread.options.room?.isFull === true) return reject('STORAGE_FULL')
      if (thread.markets.size >= MARKETS_OPEN_MAX) return reject('OVERLOADED')
      hosted = host(thread, opened, partition)
    }
    return market.OpenMarket(hosted.state, message, context)
  },

  PlaceOrder(thread, message, context) {
    const hosted = thread.markets.get(message.order.marketId)
    if (hosted === undefined) return reject('MARKET_NOT_FOUND')
    const refused = refusedHere(thread, hosted, message, context.nowMs)
    if (refused !== undefined) return firstAnswer(hosted.state, message.order, context) ?? refused
    return market.PlaceOrder(hosted.state, message, context)
  },

  PlaceOrders(thread, { marketId, orders }, context) {
    const hosted = thread.markets.get(marketId)
    if (hosted === undefined) return reject('MARKET_NOT_FOUND')
    const refused = orders.map((placed) => refusedHere(thread, hosted, placed, context.nowMs))
    const passed = orders.filter((_, at) => refused[at] === undefined)
    const done = market.PlaceOrders(hosted.state, { marketId, orders: passed }, context)
    if (isRejection(done)) return done
    const answers = [...done.answers]
    return {
      answers: orders.map(({ order }, at) => {
        const why = refused[at]
        if (why === undefined) return answers.shift() ?? reject('INTERNAL')
        return firstAnswer(hosted.state, order, context) ?? why
      }),
    }
  },

  CancelOrder(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.CancelOrder(state, message, context),
    )
  },

  KeepOrder(thread, message, context) {
    return inMarket(thread, message.marketId, (state) => market.KeepOrder(state, message, context))
  },

  RecallOrder(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.RecallOrder(state, message, context),
    )
  },

  CancelOrders(thread, message, context) {
    return inMarket(thread, message.marketId, (state) =>
      market.CancelOrders(state, message, context),
    )
  },

  CloseMarket(thread, message, context) {
    const hosted = thread.markets.get(message.marketId)
    if (hosted === undefined) return reject('MARKET_NOT_FOUND')
    const answer = market.CloseMarket(hosted.state, message, context)
    if (hosted.state.closed === 'resolved') thread.over.add(hosted)
    return answer
  },

  Expire(thread, message, context) {
    const hosted = thread.markets.get(message.marketId)
    if (hosted === undefined) return undefined
    const { state } = hosted
    const before = state.seq
    market.Expire(state, { ...message, ordersMax: thread.expirationsLeft }, context)
    thread.expirationsLeft -= Math.min(thread.expirationsLeft, state.seq - before)
    planExpiry(thread.expiring, hosted)
    return undefined
  },

  Snapshot(thread, message, context) {
    return inMarket(thread, message.marketId, (state) => market.Snapshot(state, message, context))
  },

  ReportTrade(thread, message, context) {
    return inMarket(thread, message.marketId, (state) => {
      const isCurrent = !isLate(thread, state.market.chainId, message.epoch)
      return isCurrent ? market.ReportTrade(state, message, context) : reject('OVERLOADED')
    })
  },

  OpenOrdersPage(thread, asked, { nowMs }: HostContext) {
    const nowSec = Math.floor(nowMs / 1_000)
    return pageOfOrders(booksOf(thread, asked), asked.trader, asked, nowSec)
  },

  MarketsOf(thread, { group, limit, ...where }) {
    const { trader } = where
    const marketIds = new Set<MarketId>()
    for (const { book, marketId, tagged } of booksOf(thread, where)) {
      const rests =
        group === undefined
          ? book.oldestOf(trader) >= 0
          : tagged?.ordersOf(trader, group).some((orderHash) => book.locate(orderHash) >= 0)
      if (rests) marketIds.add(marketId)
      if (marketIds.size === limit) break
    }
    return { marketIds: [...marketIds] }
  },

  CountOrders: countOrders,

  Confirm: () => OWNER,

  Markets(thread, { after, partitions }) {
    const away = partitions?.some((partition) => thread.away.has(partition))
    const answer = someViews(thread, after, partitions)
    return { ...answer, away: away ?? thread.away.size > 0, dozes: true }
  },

  HoldTrader: holdTrader,
  UnsettledSales: unsettledSales,
  Standing: standingOf,
  PendingMarkets: pendingMarketsOf,
  PausedTraders: pausedTraders,
  SettlementLag: applyLag,
  TradersPaused: applyPaused,
  TradersSpent: applySpent,
  Projected: applyProjected,
}

/**
 * Handles a message that concerns no single market and is sent only once; returns false for any other message. Such
 * messages bypass the mailbox and the log. So they are not lost if the mailbox is full or the log file is closed.
 */
export function handleAtOnce(
  thread: MarketThread,
  command: Message<MarketThreadProtocol>,
): boolean {
  if (command.type === 'SettlementLag') applyLag(thread, command.message)
  else if (command.type === 'TradersPaused') applyPaused(thread, command.message)
  else if (command.type === 'TradersSpent') applySpent(thread, command.message)
  else if (command.type === 'Projected') applyProjected(thread, command.message)
  else return false
  return true
}

function host(
  thread: MarketThread,
  opened: Market,
  partition: number,
  chunks: readonly [Iterable<Uint8Array>, Iterable<Uint8Array>] = [[], []],
): Hosted {
  const rules = rulesOf(thread, partition)
  const counts = thread.counts.get(opened.chainId) ?? new PendingCounts()
  thread.counts.set(opened.chainId, counts)
  const state = newMarket(opened, rules, thread.recall, counts)
  const hosted: Hosted = {
    state,
    partition,
    eventsSinceSnapshot: 0,
    snapshot: undefined,
    dueSec: Number.POSITIVE_INFINITY,
  }
  hosted.state = { ...state, books: [bookOf(YES), bookOf(NO)] }
  thread.markets.set(opened.id, hosted)
  return hosted

  function bookOf(outcome: Outcome): Book {
    const traders = new Residence<BookPlace>({ hosted, outcome }, thread.traders)
    const options = { ...bookOptions(rules, opened), traders }
    const [chunk, ...more] = chunks[outcome]
    return chunk === undefined ? new Book(options) : Book.restore([chunk, ...more], options)
  }
}

/** Returns the rules that all markets of a partition share. */
function rulesOf(thread: MarketThread, partition: number): MarketRules {
  const { rules, seed, ordersMax = ORDERS_PER_MARKET_MAX, lag } = thread.options
  const known = thread.rules.get(partition)
  if (known !== undefined) return known
  const behind = {
    has: (chainId: number) =>
      thread.behind.has(chainId) ||
      (thread.late.has(partition) && lag?.chains.has(chainId) === true),
  }
  const made = { ...rules, seed, ordersMax, behind, openOrders: orderCounter(thread) }
  thread.rules.set(partition, made)
  return made
}

/**
 * Reloads a partition from its file after a failed append; returns whether that succeeded. If the partition cannot be
 * opened now, its markets are unloaded, `away` contains the reason, and the caller retries. If the file is damaged, its
 * fault is thrown.
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
    hosted.state.pending.drop()
    hosted.state.held.drop()
    thread.markets.delete(marketId)
    thread.due.delete(marketId)
    thread.over.delete(hosted)
  }
  thread.traders.drop(({ hosted }) => hosted.partition === partition)
  thread.truncatable.delete(partition)
  thread.forgettable.delete(partition)
}

/** Maximum number of records that recovery reads per call. */
const REPLAY_BATCH = 4_096

function loadPartition(thread: MarketThread, partition: number): void {
  const { log } = thread.options
  for (const meta of log.snapshots(partition)) restore(thread, partition, meta)
  const { lastOffset } = log.state(partition)
  // Start at the truncation floor. The snapshots include all earlier records, which the log keeps only for the
  // database.
  for (let offset = log.truncationFloor(partition).offset; offset <= lastOffset; ) {
    const records = log.read(partition, offset, REPLAY_BATCH)
    assert(records.length > 0, `partition ${partition} ends before ${lastOffset}`)
    for (const { event } of records) replay(thread, partition, event)
    offset += records.length
    thread.options.progress?.()
  }
  for (const hosted of thread.markets.values()) {
    if (hosted.partition !== partition) continue
    if (hosted.state.closed === 'resolved') thread.over.add(hosted)
    planExpiry(thread.expiring, hosted)
  }
}

function replay(thread: MarketThread, partition: number, event: MarketEvent): void {
  let hosted = thread.markets.get(event.marketId)
  if (hosted === undefined) {
    assert(event.type === 'MarketOpened', `${event.marketId} has ${event.type} before MarketOpened`)
    hosted = host(thread, event.market, partition)
  }
  // Skip records that the market’s snapshot includes. The log may keep such records because another market still needs
  // them.
  if (event.seq <= hosted.state.seq) return
  apply(hosted.state, event)
  hosted.eventsSinceSnapshot++
}

function restore(thread: MarketThread, partition: number, meta: SnapshotMeta): void {
  const snapshot = thread.options.log.readSnapshot(partition, meta.marketId)
  assert(snapshot !== undefined)
  const { head, books, pending, held, tags } = readMarketSnapshot(snapshot)
  const hosted = host(thread, head.market, partition, books)
  hosted.snapshot = meta
  hosted.state.pending.restore(pending)
  for (const row of held) hosted.state.held.restore(row)
  for (const row of tags) hosted.state.tagged.restore(row)
  hosted.state.seq = head.seq
  hosted.state.closed = head.closed ?? undefined
  hosted.state.updatedAtMs = head.updatedAtMs
  hosted.state.unsettled = head.unsettled
  thread.options.progress?.()
}
