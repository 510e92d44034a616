/**
 * The columns that the projection writes, and the values of a row in their order. It is the one
 * place where domain values become columns; the entities are the way back.
 */

import assert from 'node:assert/strict'
import type { MarketId, TradeId } from '#domain/ids.ts'
import { parseTradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { PermitSignature } from '#domain/order.ts'
import { expiresAtSec } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { CollapsedBatch } from './collapse.ts'
import type { MarketRow, OrderChange, OrderRow } from './rows.ts'

export type Value = string | number | null

export const MARKET_COLUMNS = [
  'market_id',
  'chain_id',
  'question',
  'description',
  'category',
  'contract_address',
  'maker',
  'expires_at_sec',
  'created_at_sec',
  'quick',
  'opened_at_ms',
  'log_partition',
  'last_seq',
] as const

export function marketValues({ market, seq, atMs }: MarketRow, partition: number): Value[] {
  return [
    market.id,
    market.chainId,
    market.question,
    market.description,
    market.category,
    market.contractAddress,
    market.maker,
    market.expiration,
    market.createdAt,
    market.quick ? 1 : 0,
    atMs,
    partition,
    seq,
  ]
}

export const ORDER_COLUMNS = [
  'order_hash',
  'market_id',
  'chain_id',
  'trader',
  'side',
  'outcome',
  'price_e6',
  'size_e6',
  'nonce',
  'expiration',
  'expires_at_sec',
  'maker_fee_recipient',
  'signature',
  'permit',
  'status',
  'remaining_e6',
  'matches',
  'placed_at_ms',
  'updated_at_ms',
  'log_partition',
  'last_seq',
] as const

export function orderValues(row: OrderRow, chainId: number, partition: number): Value[] {
  const { order } = row
  return [
    order.orderHash,
    order.marketId,
    chainId,
    order.trader,
    order.side,
    order.outcome,
    order.price,
    order.size,
    order.nonce,
    order.expiration,
    expiresAtSec(order.expiration),
    order.makerFeeRecipient,
    order.signature,
    order.permit === undefined ? null : permitText(order.permit),
    row.status,
    row.remaining,
    row.matches,
    row.placedAtMs,
    row.atMs,
    partition,
    row.seq,
  ]
}

/** What can change about an order, its key last. */
export function orderChangeValues(change: OrderChange): Value[] {
  return [change.status, change.remaining, change.atMs, change.seq, change.orderHash]
}

export const TRADE_COLUMNS = [
  'market_id',
  'seq',
  'fill_index',
  'chain_id',
  'outcome',
  'price_e6',
  'size_e6',
  'cost_e6',
  'buyer',
  'seller',
  'buy_order_hash',
  'sell_order_hash',
  'taker_side',
  'matched_at_ms',
  'status',
  'pending',
  'tx_hash',
  'reason',
  'attempts',
  'failed_at_ms',
  'updated_at_ms',
] as const

export function tradeValues(trade: CollapsedBatch['trades'][number], chainId: number): Value[] {
  const { state } = trade
  return [
    trade.marketId,
    trade.seq,
    trade.fillIndex,
    chainId,
    trade.outcome,
    trade.price,
    trade.size,
    costCeil(trade.price, trade.size),
    trade.buyer,
    trade.seller,
    trade.buyOrderHash,
    trade.sellOrderHash,
    trade.takerSide,
    trade.matchedAtMs,
    state.status,
    isPending(state.status) ? 1 : 0,
    textOrNull(state.txHash),
    reasonText(state.reason),
    state.attempts,
    state.status === 'failed' ? state.atMs : null,
    state.atMs,
  ]
}

/** What can change about a trade, its key last. */
export function tradeChangeValues(change: CollapsedBatch['tradeChanges'][number]): Value[] {
  const { marketId, sequence, fillIndex } = tradeKey(change.tradeId)
  return [
    change.status,
    isPending(change.status) ? 1 : 0,
    textOrNull(change.txHash),
    reasonText(change.reason),
    change.attempts,
    change.status === 'failed' ? change.atMs : null,
    change.atMs,
    marketId,
    sequence,
    fillIndex,
  ]
}

export function tradeKey(tradeId: TradeId): {
  marketId: MarketId
  sequence: number
  fillIndex: number
} {
  const key = parseTradeId(tradeId)
  assert(key !== undefined, `not a trade id: ${tradeId}`)
  return key
}

/** Whether the chain has still to decide about the trade. */
function isPending(status: TradeStatus): boolean {
  return status === 'matched' || status === 'submitted' || status === 'reverted'
}

/** Named field by field, so that only the shape that was checked reaches the database. */
function permitText({ nonce, value, deadline, v, r, s }: PermitSignature): string {
  return JSON.stringify({ nonce, value, deadline, v, r, s })
}

const REASON_LENGTH_MAX = 1_000

/** The reason comes from a chain's node: a long one is cut rather than stopping the projection. */
function reasonText(reason: string): string | null {
  if (reason.length <= REASON_LENGTH_MAX) return textOrNull(reason)
  return reason.slice(0, REASON_LENGTH_MAX).toWellFormed()
}

function textOrNull(text: string): string | null {
  return text === '' ? null : text
}
