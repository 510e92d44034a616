/**
 * Columns that the projection writes, and functions that return a row's values in the order of the columns. Only this
 * file converts domain values to columns. The entities convert them back.
 */

import assert from 'node:assert/strict'
import type { MarketId, TradeId } from '#domain/ids.ts'
import { parseTradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { PermitSignature } from '#domain/order.ts'
import { expiresAtSec } from '#domain/order.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { CollapsedBatch } from './collapse.ts'
import type { MarketRow, OrderChange, OrderRow } from './rows.ts'

export type Value = string | number | null

/** Columns in order, and how each value is written: `hex` is converted to bytes, other values are unchanged. */
export type Columns = Readonly<Record<string, 'hex' | 'int' | 'text'>>

export const MARKET_COLUMNS: Columns = {
  market_id: 'hex',
  chain_id: 'int',
  question: 'text',
  description: 'text',
  category: 'text',
  contract_address: 'hex',
  maker: 'hex',
  expires_at_sec: 'int',
  created_at_sec: 'int',
  quick: 'int',
  opened_at_ms: 'int',
  log_partition: 'int',
  last_seq: 'int',
  matching: 'text',
}

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
    market.matching ?? null,
  ]
}

export const ORDER_COLUMNS: Columns = {
  order_hash: 'hex',
  market_id: 'hex',
  chain_id: 'int',
  trader: 'hex',
  side: 'int',
  outcome: 'int',
  price_e6: 'int',
  size_e6: 'int',
  nonce: 'text',
  expiration: 'text',
  expires_at_sec: 'int',
  maker_fee_recipient: 'hex',
  signature: 'hex',
  permit: 'text',
  status: 'text',
  remaining_e6: 'int',
  matches: 'int',
  placed_at_ms: 'int',
  updated_at_ms: 'int',
  log_partition: 'int',
  last_seq: 'int',
}

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

/** Tags of an order; an order without tags has no row. */
export const ORDER_TAGS_COLUMNS: Columns = {
  order_hash: 'hex',
  label: 'text',
  order_group: 'text',
}

export function orderTagsValues({ order, tags }: OrderRow): Value[][] {
  const { label, group } = tags ?? {}
  if (label === undefined && group === undefined) return []
  return [[order.orderHash, label ?? null, group ?? null]]
}

/** Columns of an order that can change; the key column is last. */
export const ORDER_CHANGE_COLUMNS: Columns = {
  status: 'text',
  remaining_e6: 'int',
  updated_at_ms: 'int',
  last_seq: 'int',
  order_hash: 'hex',
}

export function orderChangeValues(change: OrderChange): Value[] {
  return [change.status, change.remaining, change.atMs, change.seq, change.orderHash]
}

export const TRADE_COLUMNS: Columns = {
  market_id: 'hex',
  seq: 'int',
  fill_index: 'int',
  chain_id: 'int',
  outcome: 'int',
  price_e6: 'int',
  size_e6: 'int',
  cost_e6: 'int',
  buyer: 'hex',
  seller: 'hex',
  buy_order_hash: 'hex',
  sell_order_hash: 'hex',
  taker_side: 'int',
  matched_at_ms: 'int',
  status: 'text',
  pending: 'int',
  tx_hash: 'hex',
  reason: 'text',
  attempts: 'int',
  failed_at_ms: 'int',
  updated_at_ms: 'int',
  kind: 'text',
  fault: 'text',
}

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
    trade.kind ?? null,
    faultOrNull(state.fault),
  ]
}

/** Columns of a trade that can change. The columns of its key come last. */
export const TRADE_CHANGE_COLUMNS: Columns = {
  status: 'text',
  pending: 'int',
  tx_hash: 'hex',
  reason: 'text',
  attempts: 'int',
  failed_at_ms: 'int',
  updated_at_ms: 'int',
  fault: 'text',
  market_id: 'hex',
  seq: 'int',
  fill_index: 'int',
}

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
    faultOrNull(change.fault),
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
  assert(key !== undefined, `the trade id ${tradeId} must be valid`)
  return key
}

/** Returns whether the trade is neither confirmed nor failed yet. */
export function isPending(status: TradeStatus): boolean {
  return status === 'matched' || status === 'submitted' || status === 'reverted'
}

/** Returns a permit as JSON, field by field, so that only the validated shape reaches the database. */
function permitText({ nonce, value, deadline, v, r, s }: PermitSignature): string {
  return JSON.stringify({ nonce, value, deadline, v, r, s })
}

function faultOrNull(fault: FaultySide = 'none'): string | null {
  return fault === 'none' ? null : fault
}

const REASON_LENGTH_MAX = 1_000

/**
 * The reason comes from a chain's node: convert it to text that every database accepts, so that it cannot stop the
 * projection.
 */
function reasonText(reason: string): string | null {
  return textOrNull(reason.slice(0, REASON_LENGTH_MAX).toWellFormed())
}

function textOrNull(text: string): string | null {
  return text === '' ? null : text
}

/**
 * Sums of a market. The first column is the key; the values of the last three columns are added to the stored values.
 */
export const MARKET_STATS_COLUMNS: Columns = {
  market_id: 'hex',
  chain_id: 'int',
  volume_whole: 'int',
  volume_millionths: 'int',
  trades: 'int',
}

/** Volume and number of trades of a chain in a time span, from one partition. */
export const CHAIN_SPAN_COLUMNS: Columns = {
  chain_id: 'int',
  log_partition: 'int',
  span_sec: 'int',
  start_sec: 'int',
  volume_whole: 'int',
  volume_millionths: 'int',
  trades: 'int',
}

/** Sums of a chain, from one partition. */
export const CHAIN_STATS_COLUMNS: Columns = {
  chain_id: 'int',
  log_partition: 'int',
  volume_whole: 'int',
  volume_millionths: 'int',
  trades: 'int',
  pending: 'int',
  traders: 'int',
  markets: 'int',
  markets_closed: 'int',
  markets_resolved: 'int',
}

export const CANDLE_COLUMNS: Columns = {
  market_id: 'hex',
  outcome: 'int',
  span_sec: 'int',
  start_sec: 'int',
  open_e6: 'int',
  high_e6: 'int',
  low_e6: 'int',
  close_e6: 'int',
  volume_whole: 'int',
  volume_millionths: 'int',
  trades: 'int',
  first_seq: 'int',
  first_fill: 'int',
  last_seq: 'int',
  last_fill: 'int',
}

export const TRADER_COLUMNS: Columns = { chain_id: 'int', address: 'hex' }

/** Columns of a trade's key. */
export const TRADE_KEY_COLUMNS: Columns = { market_id: 'hex', seq: 'int', fill_index: 'int' }
