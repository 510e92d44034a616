/**
 * What becomes of a market's trades on chain: a report is checked, recorded, and, where the chain
 * refused the trade, undone in the books.
 */

import assert from 'node:assert/strict'
import { type Address, parseTradeId } from '#domain/ids.ts'
import { isShares, type Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, OUTCOMES, SELL, type VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { admit, close, closedBy, emit, type MarketContext, secondsOf, tellRest } from './orders.ts'
import type { MarketState, TradeReport } from './state.ts'

/** A report that cannot be about a trade of this market; its sender is wrong. */
export function reportFlaw(state: MarketState, report: TradeReport): Rejection | undefined {
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
export function isOverdrawn(state: MarketState, { buy, sell, size }: TradeReport): boolean {
  const gone = ({ outcome, orderHash, size: whole }: VerifiedOrder): number =>
    whole - (state.books[outcome].find(orderHash)?.remaining ?? 0)
  return !isShares(size) || size > Math.min(gone(buy), gone(sell))
}

/** Where a trade may go from where it is. Failed is final: its quantity is back in the book. */
export function mayBecome(from: TradeStatus, to: TradeStatus): boolean {
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

export function recordTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
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
 * A trade that the chain refused: the trader at fault loses their orders in this market, and the
 * quantity of the other side goes back to its order. The orders at fault leave first, so that what
 * goes back does not meet them again.
 */
export function undoTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
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
 * A resting order keeps its place and grows: it was there before the orders behind it. One that the
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
