/**
 * Applies market events to the needs of traders. The open size in an event (`remaining`) replaces the stored size. An
 * event that arrives again is skipped. It is recognised by its `seq`, which is not higher than that of the last event
 * applied for its market.
 */

import assert from 'node:assert/strict'
import { outcomeToken } from '#domain/funds.ts'
import { tradeId } from '#domain/ids.ts'
import type {
  MarketEvent,
  OrderClosed,
  OrderRested,
  OrdersMatched,
  TradeOutcome,
} from '#domain/market-event.ts'
import { isTakerBuyer, makerOutcome } from '#domain/match-trades.ts'
import { noteEnded, openOrder, setRemaining } from './account.ts'
import { keepPromise } from './promises.ts'
import type { AccountsState, LoadedAccounts, MarketNeeds } from './state.ts'
import { addTrade, confirmTrade, endTrade, revertTrade } from './trades.ts'

/** Maximum number of orders of closed markets that one call of `dropSome` removes. */
const CLOSED_ORDERS_MAX = 5_000
/** Maximum number of markets that one call of `forgetOver` checks for removal from memory. */
const MARKETS_LOOKED_AT_MAX = 100

function openMarket(
  state: AccountsState,
  market: { readonly marketId: MarketNeeds['marketId']; readonly chainId: number },
): MarketNeeds | undefined {
  const chain = state.chains.get(market.chainId)
  if (chain === undefined) return undefined
  const { marketId } = market
  const opened: MarketNeeds = {
    marketId,
    chain,
    seq: 0,
    orders: new Set(),
    closed: false,
    trades: 0,
    lastEventAtMs: state.startedAtMs,
  }
  state.markets.set(marketId, opened)
  return opened
}

/** Applies the orders and trades that were loaded from the database. */
export function take(state: AccountsState, loaded: LoadedAccounts): void {
  const { isMine } = state.rules
  for (const market of loaded.markets) {
    const opened = openMarket(state, market)
    if (opened !== undefined) opened.closed = market.closed
  }
  for (const order of loaded.orders) {
    const market = state.markets.get(order.marketId)
    if (market === undefined || market.closed || !isMine(order.trader)) continue
    const { trader, marketId, outcome } = order
    const owner = { trader, token: outcomeToken(marketId, outcome) }
    setRemaining(state, openOrder(state, market, owner, order), order.remaining)
  }
  for (const trade of loaded.trades) {
    const market = state.markets.get(trade.marketId)
    if (market === undefined) continue
    if (addTrade(state, market.chain, trade) === undefined) continue
    // If an order of this trade is filled, it was not loaded as an open order. A client may still send it again, so its
    // hash is remembered.
    noteEnded(state, trade.buyOrderHash)
    noteEnded(state, trade.sellOrderHash)
  }
}

export function fold(state: AccountsState, event: MarketEvent): void {
  let market = state.markets.get(event.marketId)
  if (market === undefined && event.type === 'MarketOpened') {
    market = openMarket(state, { marketId: event.marketId, chainId: event.market.chainId })
  }
  // This thread does not track markets on chains without funds checks.
  if (market === undefined) return
  if (event.seq <= market.seq) return
  assert(
    market.seq === 0 || event.seq === market.seq + 1,
    `a gap in the events of ${event.marketId}`,
  )
  market.seq = event.seq
  market.lastEventAtMs = event.atMs
  switch (event.type) {
    case 'OrderRested':
      rested(state, market, event)
      break
    case 'OrdersMatched':
      matched(state, market, event)
      break
    case 'OrderClosed':
      closed(state, event)
      break
    case 'MarketClosed':
      if (market.closed) break
      market.closed = true
      if (market.orders.size > 0) state.closing.push(market)
      break
    default:
      if ('tradeId' in event) outcome(state, event)
  }
}

function rested(state: AccountsState, market: MarketNeeds, event: OrderRested): void {
  const { orderHash, trader, side, price, remaining, placedAtMs } = event
  if (!state.rules.isMine(trader)) return
  let order = state.orders.get(orderHash)
  if (order === undefined) {
    const permit = event.order === undefined ? event.permit : event.order.permit?.nonce
    const owner = { trader, token: outcomeToken(event.marketId, event.outcome) }
    order = openOrder(state, market, owner, { orderHash, side, price, permit, placedAtMs })
  }
  order.placedAtMs = placedAtMs
  setRemaining(state, order, remaining)
  // End the order's reservation (promise) only after the order's need is counted. In the opposite order, the account
  // could be idle between the two steps and be removed from memory.
  keepPromise(state, orderHash)
}

function matched(state: AccountsState, market: MarketNeeds, event: OrdersMatched): void {
  const { taker, fills, marketId, seq } = event
  const { outcome } = taker
  const takerPermit = taker.permit?.nonce
  for (let fillIndex = 0; fillIndex < fills.length; fillIndex++) {
    const { makerHash, maker, price, size, makerRemaining, kind } = fills[fillIndex]!
    const resting = state.orders.get(makerHash)
    const buys = isTakerBuyer(taker, { kind })
    const makerPermit = resting?.permit?.nonce
    addTrade(state, market.chain, {
      tradeId: tradeId(marketId, seq, fillIndex),
      marketId,
      outcome: makerOutcome(taker, { kind }),
      price,
      size,
      buyer: buys ? taker.trader : maker,
      seller: buys ? maker : taker.trader,
      buyOrderHash: buys ? taker.orderHash : makerHash,
      sellOrderHash: buys ? makerHash : taker.orderHash,
      permit: buys ? takerPermit : makerPermit,
      ...(kind === undefined ? {} : { kind, sellPermit: buys ? makerPermit : takerPermit }),
    })
    if (resting !== undefined) setRemaining(state, resting, makerRemaining)
  }
  if (!state.rules.isMine(taker.trader)) return
  const { orderHash, trader, side, price } = taker
  let order = state.orders.get(orderHash)
  if (order === undefined && event.takerRemaining > 0) {
    const owner = { trader, token: outcomeToken(marketId, outcome) }
    const placedAtMs = event.atMs
    const permit = takerPermit
    order = openOrder(state, market, owner, { orderHash, side, price, permit, placedAtMs })
  }
  if (order !== undefined) setRemaining(state, order, event.takerRemaining)
  keepPromise(state, orderHash)
}

function closed(state: AccountsState, { orderHash, trader }: OrderClosed): void {
  if (!state.rules.isMine(trader)) return
  const order = state.orders.get(orderHash)
  if (order !== undefined) setRemaining(state, order, 0)
  keepPromise(state, orderHash)
  noteEnded(state, orderHash)
}

function outcome(state: AccountsState, event: TradeOutcome): void {
  switch (event.type) {
    case 'TradeConfirmed':
      if (state.reverted.has(event.tradeId)) state.reverted.set(event.tradeId, true)
      confirmTrade(state, event.tradeId)
      break
    case 'TradeFailed':
      state.reverted.delete(event.tradeId)
      endTrade(state, event.tradeId)
      break
    case 'TradeReverted':
      if (!revertTrade(state, event.tradeId)) state.reverted.set(event.tradeId, false)
      break
    default:
      break
  }
}

/** Removes some orders of closed markets; returns whether more remain. */
export function dropSome(state: AccountsState): boolean {
  let left = CLOSED_ORDERS_MAX
  while (state.closing.length > 0) {
    const market = state.closing[0]!
    for (const order of market.orders) {
      if (left-- === 0) return true
      setRemaining(state, order, 0)
    }
    state.closing.shift()
  }
  return false
}

/**
 * Forgets markets that closed long ago and have no orders or unsettled trades left; checks a limited number per call.
 */
export function forgetOver(state: AccountsState, nowMs: number): void {
  for (let left = MARKETS_LOOKED_AT_MAX; left > 0; left--) {
    state.looking ??= state.markets.values()
    const next = state.looking.next()
    if (next.done === true) {
      state.looking = undefined
      return
    }
    const { marketId, closed, orders, trades, lastEventAtMs } = next.value
    if (!closed || orders.size > 0 || trades > 0) continue
    if (nowMs - lastEventAtMs > state.rules.closedMs) state.markets.delete(marketId)
  }
}
