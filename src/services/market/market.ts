/**
 * A market owns its two books and is their only writer. Handlers change the books and emit events, which are durable
 * before any answer is sent. Recovery applies the same events to the same state. No other code changes this state. The
 * steps of the handlers are in `orders.ts` and `trades.ts`.
 */

import assert from 'node:assert/strict'
import { Book } from '#book/book.ts'
import { OrderList } from '#book/order-list.ts'
import type { OrderHash } from '#domain/ids.ts'
import { DEPARTURES_MAX, EXPIRATIONS_MAX } from '#domain/limits.ts'
import { isComplementary, type Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { makerOutcome } from '#domain/match-trades.ts'
import { BUY, NO, OUTCOMES, type Outcome, SELL, type Side, YES } from '#domain/order.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type {
  LevelView,
  MarketProtocol,
  MarketView,
  OrderCancelled,
  PendingOfOrder,
} from '#protocol/market.ts'
import type { PureBehaviour } from '#runtime/actor.ts'
import { cancelFilled, cancelledAnswer } from './cancels.ts'
import { departing, hasTooMany, ordersOf } from './departures.ts'
import { firstAnswer } from './first-answer.ts'
import { LoggedHolds } from './held.ts'
import { closeAll, closedBy, emit, endMarket, note, restIn, secondsOf, withdraw } from './orders.ts'
import { PendingCounts, PendingTrades } from './pending.ts'
import { mark, place, placeAll } from './place.ts'
import type { MarketRules, MarketState, Recall } from './state.ts'
import { TaggedOrders } from './tagged-orders.ts'
import { failTrade, isOverdrawn, mayBecome, recordTrade, reported, reportFlaw } from './trades.ts'

/**
 * Makes the state of a market without orders. `counts` has the number of pending trades of each trader on the chain, in
 * all markets of the thread.
 */
export function newMarket(
  market: Market,
  rules: MarketRules,
  recall: Recall,
  counts = new PendingCounts(),
): MarketState {
  return {
    market,
    books: [new Book(bookOptions(rules, market)), new Book(bookOptions(rules, market))],
    seq: 0,
    closed: undefined,
    updatedAtMs: 0,
    unsettled: 0,
    held: new LoggedHolds(market.id, rules.sessions?.index),
    tagged: new TaggedOrders(),
    pending: new PendingTrades(counts, rules.settled?.has(market.chainId) ?? true),
    rules,
    recall,
  }
}

/**
 * Returns the options of a market’s books. Books have spare capacity for orders that return to the book after a failed
 * trade.
 */
export function bookOptions({ ordersMax, seed }: MarketRules, market: Market) {
  return { ordersMax: 2 * ordersMax, seed, hasArrivals: isComplementary(market) }
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

  PlaceOrder(state, placed, context) {
    return place(state, placed, context)
  },

  PlaceOrders(state, { orders }, context) {
    return { answers: placeAll(state, orders, context) }
  },

  CancelOrder(state, { orderHash, side, trader }, context) {
    const nowSec = secondsOf(context.nowMs)
    const closed = state.recall.closed.get(orderHash)
    if (closed !== undefined && closed.marketId === state.market.id && closed.side === side) {
      if (trader !== undefined && closed.trader !== trader) return reject('NOT_ORDER_OWNER')
      return cancelFilled(state, closed, context) ?? reject('ORDER_CLOSED')
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
      return cancelled ? cancelledAnswer(state, resting) : reject('ORDER_CLOSED')
    }
    return reject('ORDER_NOT_FOUND')
  },

  KeepOrder(state, { orderHash }, context) {
    mark(state, orderHash, undefined, context)
    return undefined
  },

  RecallOrder(state, order, context) {
    const answer = firstAnswer(state, order, context)
    if (answer === undefined) return { unknown: true }
    const closed = state.recall.closed.get(order.orderHash)
    if (isRejection(answer) || closed === undefined) return answer
    const isPending = state.pending.sizeOf(closed.trader, order.orderHash) > 0
    return { ...answer, left: isPending ? 'pending' : 'nothing' }
  },

  CancelOrders(state, message, context) {
    const { trader, group, reason, cause, limit = DEPARTURES_MAX } = message
    const orderHashes =
      group === undefined ? message.orderHashes : state.tagged.ordersOf(trader, group)
    const why = reason ?? 'cancelled'
    const cancelled: OrderCancelled[] = []
    if (closedBy(state, secondsOf(context.nowMs), context)) return allCancelled(cancelled)
    const wanted = orderHashes === undefined ? undefined : new Set(orderHashes)
    let left = wanted === undefined ? Math.min(limit, DEPARTURES_MAX) : wanted.size
    for (const outcome of OUTCOMES) {
      for (const resting of departing(state, outcome, trader, { wanted, max: left })) {
        left--
        const slot = state.books[outcome].locate(resting.orderHash)
        const ended = withdraw(state, outcome, slot, resting, context, why, cause)
        if (ended === why) cancelled.push(cancelledAnswer(state, resting))
      }
    }
    // A request with the reason `unfunded` and a list comes from the accounts thread. It lists only resting orders that
    // the trader's funds do not cover. If a listed order was filled meanwhile, it needs no funds, so do not cancel it.
    // If a failed trade returns its quantity, the accounts thread checks the order again.
    const isLate = reason === 'unfunded' && wanted !== undefined
    for (const orderHash of isLate ? [] : state.pending.ordersOf(trader)) {
      if (wanted !== undefined && !wanted.has(orderHash)) continue
      const closed = state.recall.closed.get(orderHash)
      const answer =
        closed === undefined ? undefined : cancelFilled(state, closed, context, { why, cause })
      if (answer !== undefined) cancelled.push(answer)
    }
    const isAll = left > 0 || wanted !== undefined || ordersOf(state, trader) === 0
    return { ...allCancelled(cancelled), ...(isAll ? {} : { more: true }) }
  },

  CloseMarket(state, { reason }, context) {
    // Ends the market if it is open, or if it was closed for another reason and is resolved now. A resolved
    // market never changes again.
    const changes = state.closed === undefined || (reason === 'resolved' && state.closed !== reason)
    if (changes) endMarket(state, reason, context)
    return { seq: state.seq }
  },

  Expire(state, { ordersMax = EXPIRATIONS_MAX }, context) {
    const nowSec = secondsOf(context.nowMs)
    if (closedBy(state, nowSec, context)) return undefined
    let left = ordersMax
    for (const outcome of OUTCOMES) {
      expired.clear()
      state.books[outcome].expire(nowSec, left, expired)
      left -= expired.length
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
    const isRepeated = status === report.status && before?.txHash === report.txHash
    if (isRepeated || !mayBecome(status, report.status)) return reported(state, report, status)
    if (report.status === 'failed' && isOverdrawn(state, report)) {
      return reject(
        'INVALID_FIELD',
        'report.size',
        'the failed trade is larger than the filled quantity of one of its orders',
      )
    }
    if (report.status === 'failed' && hasTooMany(state, report, context)) {
      return reject(
        'OVERLOADED',
        undefined,
        'the market is still removing the orders of a trader whose trade failed: retry shortly',
      )
    }
    if (report.status === 'failed') failTrade(state, report, context)
    else recordTrade(state, report, context)
    return reported(state, report, report.status)
  },
}

/** Buffer for expired orders, shared by all markets of the thread, like `matched` in `orders.ts`. */
const expired = new OrderList()

function allCancelled(cancelled: readonly OrderCancelled[]): {
  orderHashes: OrderHash[]
  pending: PendingOfOrder[]
} {
  const pending: PendingOfOrder[] = []
  for (const { orderHash, pendingSize } of cancelled) {
    if (pendingSize !== undefined) pending.push({ orderHash, pendingSize })
  }
  return { orderHashes: cancelled.map(({ orderHash }) => orderHash), pending }
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

/** Applies a logged event during recovery. It changes the books exactly as the handler that emitted it. */
export function apply(state: MarketState, event: MarketEvent): void {
  note(state, event)
  // Clear the list of orders that protection would cancel. During a replay, the log already contains these cancels.
  state.tagged.takeExceeded()
  switch (event.type) {
    case 'OrderRested': {
      const book = state.books[event.outcome]
      if (event.added === 0) break
      if (event.added < event.remaining) {
        assert.equal(book.grow(event.orderHash, event.added), event.remaining)
      } else {
        const rests = restIn(state, event.outcome, event, event.seq)
        assert(rests, 'the book has no room for an order that rested in it before')
      }
      break
    }
    case 'OrdersMatched': {
      for (const fill of event.fills) {
        const book = state.books[makerOutcome(event.taker, fill)]
        const slot = book.locate(fill.makerHash)
        assert(slot >= 0, `order ${fill.makerHash} was matched, but it is not in the book`)
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
