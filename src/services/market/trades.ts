/**
 * Handles the on-chain results of a market's trades: checks and records reports, and undoes refused trades in the
 * books.
 */

import assert from 'node:assert/strict'
import { parseTradeId } from '#domain/ids.ts'
import { isComplementary } from '#domain/market.ts'
import type { ExcusedSide, PendingTrade } from '#domain/market-event.ts'
import { kindOf } from '#domain/match-trades.ts'
import { isShares, type Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, OUTCOMES, SELL, type VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { TraderPause } from '#domain/trader-pauses.ts'
import type { TradeReport } from '#protocol/market.ts'
import {
  admit,
  close,
  closedBy,
  emit,
  emitRest,
  isExcused,
  type MarketContext,
  secondsOf,
  tradersAtFault,
} from './orders.ts'
import { protect } from './protection.ts'
import type { MarketState } from './state.ts'

/** Returns a rejection if the report cannot be about a trade of this market; otherwise undefined. */
export function reportFlaw(state: MarketState, report: TradeReport): Rejection | undefined {
  const { tradeId, buy, sell } = report
  const place = parseTradeId(tradeId)
  if (place === undefined || place.marketId !== state.market.id || place.sequence > state.seq) {
    return reject('NOT_FOUND', 'report.tradeId')
  }
  const pair =
    (buy.side === BUY && sell.side === SELL && buy.outcome === sell.outcome) ||
    (isComplementary(state.market) && kindOf(buy, sell) !== undefined)
  const here = buy.marketId === state.market.id && sell.marketId === state.market.id
  return pair && here
    ? undefined
    : reject('INVALID_FIELD', 'report', 'the two orders cannot match in this market')
}

/** Returns true if undoing the trade would return more quantity to an order than the order's filled quantity. */
export function isOverdrawn(state: MarketState, { buy, sell, size }: TradeReport): boolean {
  const gone = ({ outcome, orderHash, size: whole }: VerifiedOrder): number =>
    whole - (state.books[outcome].find(orderHash)?.remaining ?? 0)
  return !isShares(size) || size > Math.min(gone(buy), gone(sell))
}

/**
 * Returns whether a trade may change from one status to the other. A failed trade never changes, because its quantity
 * is back in the book.
 */
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

export function recordTrade(
  state: MarketState,
  report: TradeReport,
  context: MarketContext,
  excused: Excuse = {},
): void {
  const { tradeId, txHash, reason, fault, status } = report
  const head = { marketId: state.market.id, seq: state.seq + 1, atMs: context.nowMs }
  switch (status) {
    case 'matched':
      return
    case 'submitted':
      emit(state, context, { type: 'TradeSubmitted', ...head, tradeId, txHash })
      break
    case 'confirmed': {
      const payer = state.pending.payerOf(tradeId)
      emit(state, context, { type: 'TradeConfirmed', ...head, tradeId, txHash })
      if (payer === undefined) break
      state.rules.risk?.budgets?.settled(state.market.chainId, payer, context.nowMs)
      break
    }
    case 'failed':
      emit(state, context, {
        type: 'TradeFailed',
        ...head,
        tradeId,
        txHash,
        reason,
        fault,
        ...excused,
      })
      break
    case 'reverted':
      emit(state, context, {
        type: 'TradeReverted',
        ...head,
        tradeId,
        txHash,
        reason,
        trade: tradeOf(report),
      })
      break
  }
  state.recall.trades.set(tradeId, { tradeId, status, txHash, atMs: context.nowMs })
}

/**
 * Returns the trade's new status. If the trade failed, also returns the current pauses of its two traders, who can
 * place no orders during a pause. Settlement forwards the pauses to the other market threads.
 */
export function reported(
  { market, rules }: MarketState,
  { buy, sell }: TradeReport,
  status: TradeStatus,
): { status: TradeStatus; paused?: TraderPause[] } {
  const pauses = rules.risk?.pauses
  if (pauses === undefined || status !== 'failed') return { status }
  const paused: TraderPause[] = []
  for (const trader of new Set([buy.trader, sell.trader])) {
    const pause = pauses.of(market.chainId, trader)
    if (pause !== undefined) paused.push(pause)
  }
  return paused.length === 0 ? { status } : { status, paused }
}

function tradeOf({ size, buy, sell }: TradeReport): PendingTrade {
  const kind = kindOf(buy, sell)
  return {
    outcome: kind === 'mint' ? buy.outcome : sell.outcome,
    size,
    price: buy.price,
    buyer: buy.trader,
    seller: sell.trader,
    buyHash: buy.orderHash,
    sellHash: sell.orderHash,
    ...(kind === undefined ? {} : { kind }),
    ...(kind === 'mint' ? { sellPrice: sell.price } : {}),
  }
}

/**
 * Reasons of refusals because a side lacks tokens. A side can be excused only for these reasons, because another trader
 * may have failed to deliver the tokens. A missing approval, for example, is always the side's own fault.
 */
const LACKS_TOKENS: ReadonlySet<string> = new Set(['InsufficientShares', 'BothUnfunded'])

/**
 * The excused sides of a failed trade. The chain blames a side, but the market excuses it if an earlier purchase has
 * not delivered the missing tokens.
 */
type Excuse = { readonly excused?: ExcusedSide }

export function excuseOf(
  state: MarketState,
  report: TradeReport,
  { nowMs }: MarketContext,
): Excuse {
  const { fault, reason, tradeId, buy, sell } = report
  if (fault === 'none' || !LACKS_TOKENS.has(reason)) return {}
  const isOwed = ({ side, trader, outcome }: VerifiedOrder): boolean =>
    side === SELL && state.pending.isOwed({ seller: trader, outcome, tradeId }, nowMs)
  const isBuyer = fault !== 'seller' && isOwed(buy)
  const isSeller = fault !== 'buyer' && isOwed(sell)
  if (isBuyer) return { excused: isSeller ? 'both' : 'buyer' }
  return isSeller ? { excused: 'seller' } : {}
}

/**
 * Undoes a trade that the chain refused. First cancels this market's orders of each trader at fault, so that they
 * cannot match the returned quantity. Then returns the trade's quantity to the order of the other side. An excused side
 * keeps its orders but gets no quantity back, because it lacks the tokens to sell.
 */
export function failTrade(state: MarketState, report: TradeReport, context: MarketContext): void {
  const { fault, buy, sell } = report
  const excuse = excuseOf(state, report, context)
  recordTrade(state, report, context, excuse)
  if (closedBy(state, secondsOf(context.nowMs), context)) return
  const trade = { buyer: buy.trader, seller: sell.trader }
  const atFault = tradersAtFault({ fault, ...excuse }, trade)
  for (const trader of atFault) {
    for (const outcome of OUTCOMES) {
      for (const resting of state.books[outcome].ordersOf(trader)) {
        state.books[outcome].cancel(resting.orderHash)
        close(state, outcome, resting, resting.orderHash, 'unfunded', context)
      }
    }
  }
  for (const order of [buy, sell]) {
    if (atFault.has(order.trader)) continue
    if (isExcused(excuse, order === buy ? 'buyer' : 'seller')) continue
    giveBack(state, order, report.size, context)
  }
  for (const { orderHash } of [buy, sell]) {
    state.held.forgetEnded(orderHash, state)
    state.tagged.forgetEnded(orderHash, state)
  }
  protect(state, context)
}

/**
 * Returns quantity to an order. A resting order grows and keeps its place in the queue, because it arrived
 * before the orders behind it. An order that the failed trade had filled re-enters the book as a new order.
 * An order that ended for another reason stays ended.
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
    const returned = { order, isNew: false, returned: true }
    emitRest(state, resting, order.outcome, quantity, context, returned)
    return
  }
  const closed = state.recall.closed.get(order.orderHash)
  if (closed?.reason !== 'filled' || book.isFull) return
  state.recall.closed.delete(order.orderHash)
  admit(state, order, quantity, closed, context)
}
