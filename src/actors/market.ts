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
  ORDER_EXPIRATION_AHEAD_SEC_MIN,
  ORDERS_PER_TRADER_MAX,
} from '#domain/limits.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { Fill, MarketEvent, OrderCloseReason } from '#domain/market-event.ts'
import type { Shares } from '#domain/money.ts'
import {
  BUY,
  expiresAtSec,
  NO,
  OUTCOMES,
  type Outcome,
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
  OpenMarket: { takes: { market: Market }; answers: { seq: Sequence } }
  PlaceOrder: { takes: { order: VerifiedOrder }; answers: OrderAccepted | Rejection }
  CancelOrder: {
    /** `trader` is whose orders the caller may cancel; anybody's when it is left out. */
    takes: { marketId: MarketId; orderHash: OrderHash; side: Side; trader?: Address }
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

/** What the partition's file knows about the hashes and trades of the batch under way. */
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
  readonly rules: MarketRules
  readonly recall: Recall
}

export type MarketRules = {
  readonly selfTrade: SelfTrade
  readonly ordersMax: number
  /** Keeps traders from choosing hashes that collide in the books' indices. */
  readonly seed: number
}

type MarketContext = PureContext<MarketEvent>

export function newMarket(market: Market, rules: MarketRules, recall: Recall): MarketState {
  const options = { ordersMax: rules.ordersMax, seed: rules.seed }
  return {
    market,
    books: [new Book(options), new Book(options)],
    seq: 0,
    closed: undefined,
    updatedAtMs: 0,
    rules,
    recall,
  }
}

export const market: PureBehaviour<MarketState, MarketProtocol, MarketEvent> = {
  OpenMarket(state, _message, context) {
    if (state.seq === 0) {
      emit(state, context, { type: 'MarketOpened', market: state.market })
    }
    return { seq: state.seq }
  },

  PlaceOrder(state, { order }, context) {
    const nowSec = secondsOf(context.nowMs)
    const seen = firstAnswer(state, order.orderHash, nowSec, context)
    if (seen !== undefined) return seen
    if (closedBy(state, nowSec, context)) return reject('MARKET_CLOSED')
    if (expiresAtSec(order.expiration) < nowSec + ORDER_EXPIRATION_AHEAD_SEC_MIN) {
      return reject('EXPIRATION_TOO_SOON', 'order.expiration')
    }
    const book = state.books[order.outcome]
    if (book.isFull) return reject('OVERLOADED', undefined, 'the book of this market is full')
    if (book.countOf(order.trader) >= ORDERS_PER_TRADER_MAX) {
      const detail = `the trader has ${ORDERS_PER_TRADER_MAX} open orders on this outcome`
      return reject('RATE_LIMITED', 'order.trader', detail)
    }
    const matches = admit(state, order, order.size, { placedAtMs: context.nowMs }, context)
    return {
      orderHash: order.orderHash,
      status: 'accepted',
      matches,
      timestamp: secondsOf(context.nowMs),
    }
  },

  CancelOrder(state, { orderHash, side, trader }, context) {
    const nowSec = secondsOf(context.nowMs)
    for (const outcome of OUTCOMES) {
      const resting = state.books[outcome].find(orderHash)
      if (resting === undefined || resting.side !== side) continue
      if (trader !== undefined && resting.trader !== trader) return reject('NOT_ORDER_OWNER')
      const expired = resting.expiresAtSec <= nowSec
      state.books[outcome].cancel(orderHash)
      close(state, outcome, resting, expired ? 'expired' : 'cancelled', context)
      return expired ? reject('ORDER_CLOSED') : { status: 'cancelled', orderHash }
    }
    const closed = state.recall.closed.get(orderHash)
    if (closed !== undefined && closed.marketId === state.market.id && closed.side === side) {
      if (trader !== undefined && closed.trader !== trader) return reject('NOT_ORDER_OWNER')
      return reject('ORDER_CLOSED')
    }
    if (state.closed !== undefined) return reject('MARKET_CLOSED')
    return reject('ORDER_NOT_FOUND')
  },

  CancelOrders(state, { trader, orderHashes }, context) {
    const cancelled: OrderHash[] = []
    const wanted = orderHashes === undefined ? undefined : new Set(orderHashes)
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader)) {
        if (wanted !== undefined && !wanted.has(resting.orderHash)) continue
        state.books[outcome].cancel(resting.orderHash)
        close(state, outcome, resting, 'cancelled', context)
        cancelled.push(resting.orderHash)
      }
    }
    return { orderHashes: cancelled }
  },

  CloseMarket(state, { reason }, context) {
    if (state.closed === undefined) endMarket(state, reason, context)
    return { seq: state.seq }
  },

  Expire(state, _message, context) {
    const nowSec = secondsOf(context.nowMs)
    if (state.closed !== undefined || closedBy(state, nowSec, context)) return undefined
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
    const place = parseTradeId(report.tradeId)
    if (place === undefined || place.marketId !== state.market.id || place.sequence > state.seq) {
      return reject('NOT_FOUND', 'tradeId')
    }
    const before = state.recall.trades.get(report.tradeId)
    const status = before?.status ?? 'matched'
    const told = status === report.status && before?.txHash === report.txHash
    if (told || !mayBecome(status, report.status)) return { status }
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

type EventBody = MarketEvent extends infer Event
  ? Event extends MarketEvent
    ? Omit<Event, 'marketId' | 'seq' | 'atMs'>
    : never
  : never

function emit(state: MarketState, context: MarketContext, body: EventBody): void {
  state.seq++
  state.updatedAtMs = context.nowMs
  context.emit({
    ...body,
    marketId: state.market.id,
    seq: state.seq,
    atMs: context.nowMs,
  } as MarketEvent)
}

/** The answer that an order got when it was first seen; undefined when it is new. */
function firstAnswer(
  state: MarketState,
  orderHash: OrderHash,
  nowSec: number,
  context: MarketContext,
): OrderAccepted | Rejection | undefined {
  for (const outcome of OUTCOMES) {
    const resting = state.books[outcome].find(orderHash)
    if (resting === undefined) continue
    if (resting.expiresAtSec > nowSec) return acceptedBefore(resting)
    state.books[outcome].cancel(orderHash)
    close(state, outcome, resting, 'expired', context)
    return reject('ORDER_CLOSED')
  }
  const closed = state.recall.closed.get(orderHash)
  if (closed === undefined) return undefined
  return closed.reason === 'filled' ? acceptedBefore(closed) : reject('ORDER_CLOSED')
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
  emit(state, context, { type: 'MarketClosed', reason })
}

/** What an order carries on from an earlier life, when a failed trade gives it back. */
type Origin = { readonly placedAtMs: number; readonly matches?: number; readonly returned?: true }

/**
 * Matches the quantity and rests what remains; answers how many makers it met. The events are in
 * the order in which replaying them never crosses a book: removals, fills, then what rests.
 */
function admit(
  state: MarketState,
  order: VerifiedOrder,
  quantity: Shares,
  origin: Origin,
  context: MarketContext,
): number {
  const { outcome } = order
  const book = state.books[outcome]
  const returned = origin.returned === undefined ? {} : { returned: origin.returned }
  let left: number = quantity
  let met = 0
  let matches = 0
  do {
    const taker = {
      trader: order.trader,
      side: order.side,
      price: order.price,
      size: left as Shares,
    }
    const rules = {
      nowSec: secondsOf(context.nowMs),
      selfTrade: state.rules.selfTrade,
      makersMax: MAKERS_PER_EVENT_MAX,
    }
    match(book, taker, rules, matched)
    closeAll(state, outcome, matched.expired, 'expired', context)
    closeAll(state, outcome, matched.selfTraded, 'self-trade', context)
    left = matched.left
    const { fills } = matched
    met += fills.length + matched.expired.length + matched.selfTraded.length
    if (fills.length === 0) continue
    matches += fills.length
    emit(state, context, {
      type: 'OrdersMatched',
      taker: order,
      takerRemaining: left,
      fills: fillsOf(fills),
      ...(matches > fills.length || origin.returned ? { known: true } : {}),
    })
    for (let index = 0; index < fills.length; index++) {
      if (fills.remaining(index) === 0) {
        close(state, outcome, fills.order(index), 'filled', context)
      }
    }
  } while (matched.limited && met < MAKERS_PER_ORDER_MAX)

  const life = {
    orderHash: order.orderHash,
    trader: order.trader,
    side: order.side,
    price: order.price,
    size: order.size,
    remaining: left as Shares,
    expiresAtSec: expiresAtSec(order.expiration),
    placedAtMs: origin.placedAtMs,
    matches: origin.matches ?? matches,
  }
  if (left === 0) {
    close(state, outcome, life, 'filled', context)
  } else if (matched.limited) {
    // It met as many makers as one order may, so it cannot rest without crossing the book.
    close(state, outcome, { ...life, remaining: 0 }, 'cancelled', context)
  } else {
    assert(book.rest(life), 'there is room for the order, it was checked before')
    state.recall.closed.delete(order.orderHash)
    emit(state, context, {
      type: 'OrderRested',
      ...life,
      outcome,
      added: left as Shares,
      ...(matches === 0 && origin.returned === undefined ? { order } : {}),
      ...returned,
    })
  }
  return matches
}

function fillsOf(list: OrderList): Fill[] {
  const fills: Fill[] = []
  for (let index = 0; index < list.length; index++) {
    fills.push({
      makerHash: list.orderHash(index),
      maker: list.trader(index),
      price: list.price(index),
      size: list.taken(index),
      makerRemaining: list.remaining(index),
    })
  }
  return fills
}

/** Says that an order, already out of the book, has ended, and remembers its first answer. */
function close(
  state: MarketState,
  outcome: Outcome,
  order: Omit<RestingOrder, 'remaining'> & { readonly remaining: number },
  reason: OrderCloseReason,
  context: MarketContext,
): void {
  const { orderHash, trader, side, price, size, remaining } = order
  const { expiresAtSec, placedAtMs, matches } = order
  const life = { orderHash, trader, side, outcome, price, size, reason }
  const first = { expiresAtSec, placedAtMs, matches }
  emit(state, context, { type: 'OrderClosed', ...life, remaining, ...first })
  const forgetAfterSec = Math.min(expiresAtSec, state.market.expiration)
  const marketId = state.market.id
  state.recall.closed.set(orderHash, { ...life, ...first, marketId, forgetAfterSec })
}

function closeAll(
  state: MarketState,
  outcome: Outcome,
  list: OrderList,
  reason: OrderCloseReason,
  context: MarketContext,
): void {
  for (let index = 0; index < list.length; index++) {
    close(state, outcome, list.order(index), reason, context)
  }
}

/** Where a trade may go from where it is. Failed is final: its quantity is back in the book. */
function mayBecome(from: TradeStatus, to: TradeStatus): boolean {
  switch (to) {
    case 'submitted':
      return from === 'matched' || from === 'submitted' || from === 'reverted'
    case 'confirmed':
      return from === 'matched' || from === 'submitted' || from === 'reverted'
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
  if (status === 'submitted') emit(state, context, { type: 'TradeSubmitted', tradeId, txHash })
  if (status === 'confirmed') emit(state, context, { type: 'TradeConfirmed', tradeId, txHash })
  if (status === 'failed') {
    emit(state, context, { type: 'TradeFailed', tradeId, txHash, reason, fault })
  }
  if (status === 'reverted')
    emit(state, context, { type: 'TradeReverted', tradeId, txHash, reason })
  state.recall.trades.set(tradeId, { tradeId, status, txHash, atMs: context.nowMs })
}

/**
 * A trade that the chain refused: whoever was at fault loses his orders in this market, and the
 * quantity of the other side goes back to its order. The orders at fault leave first, so that what
 * goes back does not meet them again.
 */
function undoTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
  const { fault, buy, sell } = report
  if (state.closed !== undefined) return
  const atFault = new Set<Address>()
  if (fault === 'buyer' || fault === 'both') atFault.add(buy.trader)
  if (fault === 'seller' || fault === 'both') atFault.add(sell.trader)
  for (const trader of atFault) {
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader)) {
        state.books[outcome].cancel(resting.orderHash)
        close(state, outcome, resting, 'unfunded', context)
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
  const nowSec = secondsOf(context.nowMs)
  if (expiresAtSec(order.expiration) <= nowSec) return
  const book = state.books[order.outcome]
  const resting = book.find(order.orderHash)
  if (resting !== undefined) {
    const remaining = book.grow(order.orderHash, quantity)
    assert(remaining !== undefined)
    emit(state, context, {
      type: 'OrderRested',
      ...resting,
      remaining: remaining as Shares,
      outcome: order.outcome,
      added: quantity,
      returned: true,
    })
    return
  }
  const closed = state.recall.closed.get(order.orderHash)
  if (closed?.reason !== 'filled' || book.isFull) return
  state.recall.closed.delete(order.orderHash)
  const origin = { placedAtMs: closed.placedAtMs, matches: closed.matches, returned: true } as const
  admit(state, order, quantity, origin, context)
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
  assert.equal(event.seq, state.seq + 1, `market ${state.market.id}: the events have a gap`)
  state.seq = event.seq
  state.updatedAtMs = event.atMs
  switch (event.type) {
    case 'OrderRested': {
      const book = state.books[event.outcome]
      if (event.added < event.remaining) {
        const remaining = book.grow(event.orderHash, event.added)
        assert.equal(remaining, event.remaining)
      } else assert(book.rest(event))
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
      if (event.remaining > 0) state.books[event.outcome].cancel(event.orderHash)
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
    state.closed ?? 'open',
    state.books[YES].stateHash(),
    state.books[NO].stateHash(),
  ].join(':')
}
