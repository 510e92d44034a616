/**
 * A market owns its two books and is their only writer. It takes commands, changes its books, and
 * says what happened; the events are durable before any answer leaves. Recovery applies the same
 * events to the same state, and nothing but events changes it.
 */

import assert from 'node:assert/strict'
import { Book } from '#book/book.ts'
import { MatchResult, match, type SelfTrade } from '#book/match.ts'
import { OrderList } from '#book/order-list.ts'
import type { RestingOrder } from '#book/order-record.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId } from '#domain/ids.ts'
import { parseTradeId } from '#domain/ids.ts'
import {
  MAKERS_PER_EVENT_MAX,
  MAKERS_PER_ORDER_MAX,
  ORDERS_PER_TRADER_MAX,
} from '#domain/limits.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type {
  Fill,
  MarketEvent,
  OrderCloseReason,
  OrderRested,
  OrdersMatched,
} from '#domain/market-event.ts'
import { isShares, type Shares } from '#domain/money.ts'
import {
  BUY,
  expiresAtSec,
  NO,
  OUTCOMES,
  type Outcome,
  orderFlaws,
  SELL,
  type Side,
  type VerifiedOrder,
  YES,
} from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { ClosedOrder, TradeState } from '#log/event-log.ts'
import type { PureBehaviour, PureContext } from '#runtime/actor.ts'

/** The first answer to an order, and the answer to every resubmission of it. */
export type OrderAccepted = {
  readonly orderHash: OrderHash
  readonly status: 'accepted'
  readonly matches: number
  /** Unix seconds. */
  readonly timestamp: number
  readonly duplicate?: true
}

export type OrderCancelled = { readonly status: 'cancelled'; readonly orderHash: OrderHash }

export type OpenOrder = RestingOrder & { readonly marketId: MarketId; readonly outcome: Outcome }

/** `[price, size]`; a size may exceed what a number holds exactly. */
export type LevelView = readonly [price: number, size: bigint]

/** A market as a reader sees it: everything up to and with `seq`. */
export type MarketView = {
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | undefined
  readonly updatedAtMs: number
  /** Per outcome: the levels of each side, best first. */
  readonly bids: readonly [readonly LevelView[], readonly LevelView[]]
  readonly asks: readonly [readonly LevelView[], readonly LevelView[]]
}

/** What became of a trade on chain, with the orders as they were signed. */
export type TradeReport = {
  readonly tradeId: TradeId
  readonly status: Exclude<TradeStatus, 'matched'>
  readonly txHash: string
  readonly reason: string
  readonly fault: FaultySide
  readonly size: Shares
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
}

export type MarketProtocol = {
  OpenMarket: { takes: { market: Market }; answers: { seq: Sequence } | Rejection }
  /** `requestId` is whose request it was, for the logs of every thread on its way. */
  PlaceOrder: {
    /** An order with a `session` is cancelled when that ends: `order-holds.ts` keeps it in mind. */
    takes: { order: VerifiedOrder; requestId?: string; session?: string }
    answers: OrderAccepted | Rejection
  }
  CancelOrder: {
    /** `trader` is whose orders the caller may cancel; anybody's when it is left out. */
    takes: {
      marketId: MarketId
      orderHash: OrderHash
      side: Side
      trader?: Address
      requestId?: string
    }
    answers: OrderCancelled | Rejection
  }
  CancelOrders: {
    takes: { marketId: MarketId; trader: Address; orderHashes?: readonly OrderHash[] }
    answers: { orderHashes: OrderHash[] } | Rejection
  }
  CloseMarket: {
    takes: { marketId: MarketId; reason: CloseReason }
    answers: { seq: Sequence } | Rejection
  }
  /** Removes what has expired; the thread's timer sends it. */
  Expire: { takes: { marketId: MarketId }; answers: undefined }
  Snapshot: { takes: { marketId: MarketId }; answers: MarketView | Rejection }
  ReportTrade: {
    takes: { marketId: MarketId; report: TradeReport }
    answers: { status: TradeStatus } | Rejection
  }
}

/**
 * What is known about the hashes and trades of the batch under way: what the partition's file says
 * of them, and on top of it what the batch itself has made of them so far.
 */
export type Recall = {
  readonly closed: Map<OrderHash, ClosedOrder>
  readonly trades: Map<TradeId, TradeState>
}

export type MarketState = {
  readonly market: Market
  readonly books: readonly [yes: Book, no: Book]
  seq: Sequence
  closed: CloseReason | undefined
  updatedAtMs: number
  /** Trades that the chain has neither confirmed nor refused. */
  unsettled: number
  readonly rules: MarketRules
  readonly recall: Recall
}

export type MarketRules = {
  readonly selfTrade: SelfTrade
  /** Orders that may rest in both books together. */
  readonly ordersMax: number
  /** Chains whose settlement is behind: their markets take cancels only. */
  readonly behind?: ReadonlySet<number>
  /** Keeps traders from choosing hashes that collide in the books' indices. */
  readonly seed: number
}

type MarketContext = PureContext<MarketEvent>

export function newMarket(market: Market, rules: MarketRules, recall: Recall): MarketState {
  return {
    market,
    books: [new Book(bookOptions(rules)), new Book(bookOptions(rules))],
    seq: 0,
    closed: undefined,
    updatedAtMs: 0,
    unsettled: 0,
    rules,
    recall,
  }
}

/** A book has room beyond what new orders may take: what a failed trade gives back must fit too. */
export function bookOptions({ ordersMax, seed }: MarketRules): { ordersMax: number; seed: number } {
  return { ordersMax: 2 * ordersMax, seed }
}

export const market: PureBehaviour<MarketState, MarketProtocol, MarketEvent> = {
  OpenMarket(state, _message, context) {
    if (state.seq === 0) {
      emit(state, context, {
        type: 'MarketOpened',
        marketId: state.market.id,
        seq: 1,
        atMs: context.nowMs,
        market: state.market,
      })
    }
    return { seq: state.seq }
  },

  PlaceOrder(state, { order }, context) {
    const nowSec = secondsOf(context.nowMs)
    const seen = firstAnswer(state, order, context)
    if (seen !== undefined) return seen
    if (closedBy(state, nowSec, context)) return reject('MARKET_CLOSED')
    const flaw = orderFlaws(order, nowSec)[0]
    if (flaw !== undefined) return flaw
    if (state.rules.behind?.has(state.market.chainId)) return reject('SETTLEMENT_BEHIND')
    const crowded = crowdedFor(state, order.trader)
    if (crowded !== undefined) return crowded
    const matches = admit(state, order, order.size, undefined, context)
    if (matches === 0 && matched.limited) {
      // Nothing has been said of the order, so it can simply be refused.
      return reject('OVERLOADED', undefined, 'too many orders that ended stand in its way')
    }
    return { orderHash: order.orderHash, status: 'accepted', matches, timestamp: nowSec }
  },

  CancelOrder(state, { orderHash, side, trader }, context) {
    const nowSec = secondsOf(context.nowMs)
    const closed = state.recall.closed.get(orderHash)
    if (closed !== undefined && closed.marketId === state.market.id && closed.side === side) {
      const foreign = trader !== undefined && closed.trader !== trader
      return reject(foreign ? 'NOT_ORDER_OWNER' : 'ORDER_CLOSED')
    }
    if (closedBy(state, nowSec, context)) return reject('MARKET_CLOSED')
    for (const outcome of OUTCOMES) {
      const book = state.books[outcome]
      const slot = book.locate(orderHash)
      if (slot < 0) continue
      const resting = book.read(slot, orderHash)
      if (resting.side !== side) break
      if (trader !== undefined && resting.trader !== trader) return reject('NOT_ORDER_OWNER')
      const cancelled = withdraw(state, outcome, slot, resting, context) === 'cancelled'
      return cancelled ? { status: 'cancelled', orderHash } : reject('ORDER_CLOSED')
    }
    return reject('ORDER_NOT_FOUND')
  },

  CancelOrders(state, { trader, orderHashes }, context) {
    const cancelled: OrderHash[] = []
    if (closedBy(state, secondsOf(context.nowMs), context)) return { orderHashes: cancelled }
    const wanted = orderHashes === undefined ? undefined : new Set(orderHashes)
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader)) {
        if (wanted !== undefined && !wanted.has(resting.orderHash)) continue
        const slot = state.books[outcome].locate(resting.orderHash)
        const reason = withdraw(state, outcome, slot, resting, context)
        if (reason === 'cancelled') cancelled.push(resting.orderHash)
      }
    }
    return { orderHashes: cancelled }
  },

  CloseMarket(state, { reason }, context) {
    // An expired market is resolved later; that is the last word.
    const news = state.closed === undefined || (reason === 'resolved' && state.closed !== reason)
    if (news) endMarket(state, reason, context)
    return { seq: state.seq }
  },

  Expire(state, _message, context) {
    const nowSec = secondsOf(context.nowMs)
    if (closedBy(state, nowSec, context)) return undefined
    for (const outcome of OUTCOMES) {
      expired.clear()
      state.books[outcome].expire(nowSec, EXPIRE_STEPS_MAX, expired)
      closeAll(state, outcome, expired, 'expired', context)
    }
    return undefined
  },

  Snapshot(state) {
    return viewOf(state)
  },

  ReportTrade(state, { report }, context) {
    const flaw = reportFlaw(state, report)
    if (flaw !== undefined) return flaw
    const before = state.recall.trades.get(report.tradeId)
    const status = before?.status ?? 'matched'
    const told = status === report.status && before?.txHash === report.txHash
    if (told || !mayBecome(status, report.status)) return { status }
    if (report.status === 'failed' && isOverdrawn(state, report)) {
      return reject('INVALID_FIELD', 'report.size', 'more than has been traded')
    }
    recordTrade(state, report, context)
    if (report.status === 'failed') undoTrade(state, report, context)
    return { status: report.status }
  },
}

/** Orders that one turn of the timer removes from one book. */
const EXPIRE_STEPS_MAX = 10_000

/** Reused by every market of the thread: handlers run to completion, one after another. */
const matched = new MatchResult()
const expired = new OrderList()

function secondsOf(ms: number): number {
  return Math.floor(ms / 1_000)
}

/** Says that something happened. Its effect on the books is the caller's. */
function emit(state: MarketState, context: MarketContext, event: MarketEvent): void {
  note(state, event)
  context.emit(event)
}

/** What every event changes, whether it is said now or read back from the log. */
function note(state: MarketState, event: MarketEvent): void {
  if (event.seq !== state.seq + 1) {
    assert.fail(`market ${state.market.id}: event ${event.seq} comes after ${state.seq}`)
  }
  state.seq = event.seq
  state.updatedAtMs = event.atMs
  switch (event.type) {
    case 'OrdersMatched':
      state.unsettled += event.fills.length
      break
    case 'TradeConfirmed':
    case 'TradeFailed':
      state.unsettled--
      break
    case 'TradeReverted':
      state.unsettled++
      break
    default:
      break
  }
}

/** The answer that an order got when it was first seen; undefined when it is new. */
export function firstAnswer(
  state: MarketState,
  { orderHash, outcome }: VerifiedOrder,
  context: MarketContext,
): OrderAccepted | Rejection | undefined {
  const closed = state.recall.closed.get(orderHash)
  if (closed !== undefined) {
    return closed.reason === 'filled' ? acceptedBefore(closed) : reject('ORDER_CLOSED')
  }
  const slot = state.books[outcome].locate(orderHash)
  if (slot < 0) return undefined
  const resting = state.books[outcome].read(slot, orderHash)
  if (resting.expiresAtSec > secondsOf(context.nowMs)) return acceptedBefore(resting)
  withdraw(state, outcome, slot, resting, context)
  return reject('ORDER_CLOSED')
}

function acceptedBefore(order: {
  orderHash: OrderHash
  matches: number
  placedAtMs: number
}): OrderAccepted {
  return {
    orderHash: order.orderHash,
    status: 'accepted',
    matches: order.matches,
    timestamp: secondsOf(order.placedAtMs),
    duplicate: true,
  }
}

/** Why there is no room for one more order of this trader; undefined when there is. */
function crowdedFor({ books, rules }: MarketState, trader: Address): Rejection | undefined {
  const [yes, no] = books
  const count = yes.count + no.count
  if (count >= rules.ordersMax) {
    return reject('OVERLOADED', undefined, 'the books of this market are full')
  }
  // Nobody has more orders than there are, and looking a trader up costs more than this.
  if (count < ORDERS_PER_TRADER_MAX) return undefined
  if (yes.countOf(trader) + no.countOf(trader) < ORDERS_PER_TRADER_MAX) return undefined
  const detail = `the trader has ${ORDERS_PER_TRADER_MAX} open orders in this market`
  return reject('RATE_LIMITED', 'order.trader', detail)
}

/** Whether the market takes no orders; it closes here when its time has come. */
function closedBy(state: MarketState, nowSec: number, context: MarketContext): boolean {
  if (state.closed === undefined && nowSec >= state.market.expiration) {
    endMarket(state, 'expired', context)
  }
  return state.closed !== undefined
}

function endMarket(state: MarketState, reason: CloseReason, context: MarketContext): void {
  state.closed = reason
  for (const book of state.books) book.clear()
  emit(state, context, {
    type: 'MarketClosed',
    marketId: state.market.id,
    seq: state.seq + 1,
    atMs: context.nowMs,
    reason,
  })
}

/** Takes a resting order out: as cancelled, or as expired if that has happened before. */
function withdraw(
  state: MarketState,
  outcome: Outcome,
  slot: number,
  resting: RestingOrder,
  context: MarketContext,
): OrderCloseReason {
  const past = resting.expiresAtSec <= secondsOf(context.nowMs)
  const reason = past ? 'expired' : 'cancelled'
  state.books[outcome].remove(slot)
  close(state, outcome, resting, resting.orderHash, reason, context)
  return reason
}

/**
 * Matches the quantity and rests what remains; answers how many makers it met. The events are in
 * the order in which replaying them never crosses a book: removals, fills, then what rests. `first`
 * is what an order that a failed trade gives back was when it was placed.
 */
function admit(
  state: MarketState,
  order: VerifiedOrder,
  quantity: Shares,
  first: ClosedOrder | undefined,
  context: MarketContext,
): number {
  const { outcome } = order
  const taker = { trader: order.trader, side: order.side, price: order.price, size: quantity }
  const rules = {
    nowSec: secondsOf(context.nowMs),
    selfTrade: state.rules.selfTrade,
    makersMax: MAKERS_PER_ORDER_MAX,
  }
  match(state.books[outcome], taker, rules, matched)
  const { fills, left, limited } = matched
  closeAll(state, outcome, matched.expired, 'expired', context)
  closeAll(state, outcome, matched.selfTraded, 'self-trade', context)
  const matches = fills.length
  if (matches > 0) tellFills(state, order, quantity, first !== undefined, context)
  if (limited && matches === 0 && first === undefined) return 0

  const life = {
    orderHash: order.orderHash,
    trader: order.trader,
    side: order.side,
    price: order.price,
    size: order.size,
    remaining: left as Shares,
    expiresAtSec: expiresAtSec(order.expiration),
    placedAtMs: first?.placedAtMs ?? context.nowMs,
    matches: first?.matches ?? matches,
  }
  if (left === 0) {
    close(state, outcome, life, order.orderHash, 'filled', context)
  } else if (limited) {
    // It met as many makers as one order may, so it cannot rest without crossing the book.
    close(state, outcome, { ...life, remaining: 0 }, order.orderHash, 'cancelled', context)
  } else {
    const rests = state.books[outcome].rest(life, life.remaining, life.matches)
    assert(rests, 'there is room for the order, it was checked before')
    tellRest(state, life, outcome, left as Shares, context, {
      order: matches === 0 && first === undefined ? order : undefined,
      returned: first !== undefined,
    })
  }
  return matches
}

/** Tells of the fills in `matched`, in as many events as they need, and of the makers they ended. */
function tellFills(
  state: MarketState,
  taker: VerifiedOrder,
  quantity: Shares,
  known: boolean,
  context: MarketContext,
): void {
  const list = matched.fills
  let left: number = quantity
  for (let from = 0; from < list.length; from += MAKERS_PER_EVENT_MAX) {
    const to = Math.min(list.length, from + MAKERS_PER_EVENT_MAX)
    const fills: Fill[] = new Array(to - from)
    for (let index = from; index < to; index++) {
      const size = list.taken(index)
      left -= size
      fills[index - from] = {
        makerHash: list.orderHash(index),
        maker: list.trader(index),
        price: list.price(index),
        size,
        makerRemaining: list.remaining(index),
      }
    }
    const event: OrdersMatched = {
      type: 'OrdersMatched',
      marketId: state.market.id,
      seq: state.seq + 1,
      atMs: context.nowMs,
      taker,
      takerRemaining: left,
      fills,
    }
    emit(state, context, known || from > 0 ? { ...event, known: true } : event)
    for (let index = from; index < to; index++) {
      const { makerHash, makerRemaining } = fills[index - from]!
      if (makerRemaining === 0) closeOne(state, taker.outcome, list, index, makerHash, context)
    }
  }
}

/** Says that an order rests, whole, in part, or with what came back to it. */
function tellRest(
  state: MarketState,
  resting: RestingOrder,
  outcome: Outcome,
  added: Shares,
  context: MarketContext,
  more: { readonly order: VerifiedOrder | undefined; readonly returned: boolean },
): void {
  const event: { -readonly [Field in keyof OrderRested]: OrderRested[Field] } = {
    type: 'OrderRested',
    marketId: state.market.id,
    seq: state.seq + 1,
    atMs: context.nowMs,
    orderHash: resting.orderHash,
    trader: resting.trader,
    side: resting.side,
    outcome,
    price: resting.price,
    size: resting.size,
    added,
    remaining: resting.remaining,
    expiresAtSec: resting.expiresAtSec,
    placedAtMs: resting.placedAtMs,
    matches: resting.matches,
  }
  if (more.order !== undefined) event.order = more.order
  else if (more.returned) event.returned = true
  emit(state, context, event)
}

/** What is told and remembered of an order that ends. */
type Ending = Omit<RestingOrder, 'orderHash' | 'remaining'> & { readonly remaining: number }

/** Says that an order, already out of the book, has ended, and remembers its first answer. */
function close(
  state: MarketState,
  outcome: Outcome,
  order: Ending,
  orderHash: OrderHash,
  reason: OrderCloseReason,
  context: MarketContext,
): void {
  const marketId = state.market.id
  const { trader, side, price, size, remaining, expiresAtSec, placedAtMs, matches } = order
  emit(state, context, {
    type: 'OrderClosed',
    marketId,
    seq: state.seq + 1,
    atMs: context.nowMs,
    orderHash,
    trader,
    side,
    outcome,
    price,
    size,
    reason,
    remaining,
    expiresAtSec,
    placedAtMs,
    matches,
  })
  state.recall.closed.set(orderHash, {
    orderHash,
    marketId,
    trader,
    side,
    outcome,
    price,
    size,
    reason,
    matches,
    placedAtMs,
    expiresAtSec,
    forgetAfterSec: Math.min(expiresAtSec, state.market.expiration),
  })
}

/** A maker that a match has used up. */
function closeOne(
  state: MarketState,
  outcome: Outcome,
  list: OrderList,
  index: number,
  orderHash: OrderHash,
  context: MarketContext,
): void {
  const ending: Ending = {
    trader: list.trader(index),
    side: list.side(index),
    price: list.price(index),
    size: list.size(index),
    remaining: 0,
    expiresAtSec: list.expiresAtSec(index),
    placedAtMs: list.placedAtMs(index),
    matches: list.matches(index),
  }
  close(state, outcome, ending, orderHash, 'filled', context)
}

function closeAll(
  state: MarketState,
  outcome: Outcome,
  list: OrderList,
  reason: OrderCloseReason,
  context: MarketContext,
): void {
  for (let index = 0; index < list.length; index++) {
    const order = list.order(index)
    close(state, outcome, order, order.orderHash, reason, context)
  }
}

/** A report that cannot be about a trade of this market; whoever sent it is wrong. */
function reportFlaw(state: MarketState, report: TradeReport): Rejection | undefined {
  const { tradeId, buy, sell } = report
  const place = parseTradeId(tradeId)
  if (place === undefined || place.marketId !== state.market.id || place.sequence > state.seq) {
    return reject('NOT_FOUND', 'report.tradeId')
  }
  const pair = buy.side === BUY && sell.side === SELL && buy.outcome === sell.outcome
  const here = buy.marketId === state.market.id && sell.marketId === state.market.id
  return pair && here ? undefined : reject('INVALID_FIELD', 'report', 'not a pair of this market')
}

/** Whether more would go back to an order than it ever lost. */
function isOverdrawn(state: MarketState, { buy, sell, size }: TradeReport): boolean {
  const gone = ({ outcome, orderHash, size: whole }: VerifiedOrder): number =>
    whole - (state.books[outcome].find(orderHash)?.remaining ?? 0)
  return !isShares(size) || size > Math.min(gone(buy), gone(sell))
}

/** Where a trade may go from where it is. Failed is final: its quantity is back in the book. */
function mayBecome(from: TradeStatus, to: TradeStatus): boolean {
  switch (to) {
    case 'submitted':
    case 'confirmed':
    case 'failed':
      return from === 'matched' || from === 'submitted' || from === 'reverted'
    case 'reverted':
      return from === 'confirmed'
    case 'matched':
      return false
  }
}

function recordTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
  const { tradeId, txHash, reason, fault, status } = report
  const head = { marketId: state.market.id, seq: state.seq + 1, atMs: context.nowMs }
  switch (status) {
    case 'submitted':
      emit(state, context, { type: 'TradeSubmitted', ...head, tradeId, txHash })
      break
    case 'confirmed':
      emit(state, context, { type: 'TradeConfirmed', ...head, tradeId, txHash })
      break
    case 'failed':
      emit(state, context, { type: 'TradeFailed', ...head, tradeId, txHash, reason, fault })
      break
    case 'reverted':
      emit(state, context, { type: 'TradeReverted', ...head, tradeId, txHash, reason })
      break
  }
  state.recall.trades.set(tradeId, { tradeId, status, txHash, atMs: context.nowMs })
}

/**
 * A trade that the chain refused: whoever was at fault loses his orders in this market, and the
 * quantity of the other side goes back to its order. The orders at fault leave first, so that what
 * goes back does not meet them again.
 */
function undoTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
  const { fault, buy, sell } = report
  if (closedBy(state, secondsOf(context.nowMs), context)) return
  const atFault = new Set<Address>()
  if (fault === 'buyer' || fault === 'both') atFault.add(buy.trader)
  if (fault === 'seller' || fault === 'both') atFault.add(sell.trader)
  for (const trader of atFault) {
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader)) {
        state.books[outcome].cancel(resting.orderHash)
        close(state, outcome, resting, resting.orderHash, 'unfunded', context)
      }
    }
  }
  for (const order of [buy, sell]) {
    if (!atFault.has(order.trader)) giveBack(state, order, report.size, context)
  }
}

/**
 * A resting order keeps its place and grows: it was there before everybody behind it. One that the
 * failed trade had filled comes back as a new arrival. One that ended otherwise stays ended.
 */
function giveBack(
  state: MarketState,
  order: VerifiedOrder,
  quantity: Shares,
  context: MarketContext,
): void {
  if (expiresAtSec(order.expiration) <= secondsOf(context.nowMs)) return
  const book = state.books[order.outcome]
  const remaining = book.grow(order.orderHash, quantity)
  if (remaining !== undefined) {
    const resting = book.find(order.orderHash)
    assert(resting !== undefined)
    const returned = { order: undefined, returned: true }
    tellRest(state, resting, order.outcome, quantity, context, returned)
    return
  }
  const closed = state.recall.closed.get(order.orderHash)
  if (closed?.reason !== 'filled' || book.isFull) return
  state.recall.closed.delete(order.orderHash)
  admit(state, order, quantity, closed, context)
}

export function viewOf(state: MarketState): MarketView {
  const levels = (outcome: Outcome, side: Side): LevelView[] =>
    state.books[outcome].depth(side).map(({ price, size }) => [price, size])
  return {
    market: state.market,
    seq: state.seq,
    closed: state.closed,
    updatedAtMs: state.updatedAtMs,
    bids: [levels(YES, BUY), levels(NO, BUY)],
    asks: [levels(YES, SELL), levels(NO, SELL)],
  }
}

/** Open orders of a trader in this market, in the order in which they came to rest per outcome. */
export function openOrdersOf(state: MarketState, trader: Address, nowSec: number): OpenOrder[] {
  const open: OpenOrder[] = []
  for (const outcome of OUTCOMES) {
    for (const order of state.books[outcome].ordersOf(trader)) {
      if (order.expiresAtSec > nowSec) open.push({ ...order, marketId: state.market.id, outcome })
    }
  }
  return open
}

/**
 * Applies an event that was said before, on recovery. It changes the books exactly as the handler
 * did that said it.
 */
export function apply(state: MarketState, event: MarketEvent): void {
  note(state, event)
  switch (event.type) {
    case 'OrderRested': {
      const book = state.books[event.outcome]
      if (event.added < event.remaining) {
        assert.equal(book.grow(event.orderHash, event.added), event.remaining)
      } else {
        const rests = book.rest(event, event.remaining, event.matches)
        assert(rests, 'there was room when the order came to rest')
      }
      break
    }
    case 'OrdersMatched': {
      const book = state.books[event.taker.outcome]
      for (const fill of event.fills) {
        const slot = book.locate(fill.makerHash)
        assert(slot >= 0, `${fill.makerHash} was matched and does not rest`)
        book.take(slot, fill.size)
        if (fill.makerRemaining === 0) book.remove(slot)
      }
      break
    }
    case 'OrderClosed':
      if (event.remaining > 0) {
        const resting = state.books[event.outcome].cancel(event.orderHash)
        assert.equal(resting?.remaining, event.remaining, `${event.orderHash} was closed`)
      }
      break
    case 'MarketClosed':
      state.closed = event.reason
      for (const book of state.books) book.clear()
      break
    default:
      break
  }
}

/** Equal for markets whose books, queues and sequence are equal. */
export function stateHashOf(state: MarketState): string {
  return [
    state.market.id,
    state.seq,
    state.updatedAtMs,
    state.unsettled,
    state.closed ?? 'open',
    state.books[YES].stateHash(),
    state.books[NO].stateHash(),
  ].join(':')
}
