/** Trades of `protocol/shapes/trades.ts` as JSON, and the position at which a list continues. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type MarketId, parseTradeId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { ShownTrade } from '#live/market-board.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'

export const TRADE_EXAMPLE = {
  tradeId: `${MARKET_ID}-17-0`,
  price: 430_000,
  size: 2_500_000,
  buyer: TRADER,
  seller: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  outcome: 0,
  timestamp: 1_800_000_000,
  txHash: '',
  status: 'matched',
  seq: 17,
}

/** Returns the fields that a match fixes, as REST and the stream write them; none needs to be escaped. */
export function matchedJson({ tradeId, price, size, buyer, seller, outcome }: ShownTrade): string {
  return (
    `"tradeId":"${tradeId}","price":${price},"size":${size},` +
    `"buyer":"${checksumAddress(buyer)}","seller":"${checksumAddress(seller)}","outcome":${outcome}`
  )
}

/** A trade as JSON without its closing brace, so that a caller can add fields. */
function openTradeJson(trade: ShownTrade): string {
  const { txHash, status, seq } = trade
  return (
    `{${matchedJson(trade)},"timestamp":${Math.floor(trade.matchedAtMs / 1_000)},` +
    `"txHash":"${txHash}","status":"${status}","seq":${seq}`
  )
}

export function tradeJson(trade: ShownTrade): string {
  return `${openTradeJson(trade)}}`
}

export function activityJson(trade: ShownTrade): string {
  return `${openTradeJson(trade)},"takerSide":${trade.takerSide}}`
}

/** Position of a trade in its market. */
export type TradePlace = { readonly seq: number; readonly fillIndex: number }

export function beforeTradeParam() {
  return Type.String({
    pattern: '^0x[0-9a-fA-F]{64}-[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,9})$',
    description: 'Only trades before this one, by its `tradeId`',
  })
}

/** Returns the position to continue from in the trades of a market; a trade of another market is rejected. */
export function placeBefore(
  marketId: MarketId,
  before: string | undefined,
): TradePlace | undefined | Rejection {
  if (before === undefined) return undefined
  const place = parseTradeId(before.toLowerCase())
  if (place === undefined) return reject('INVALID_FIELD', 'before', 'before must be a tradeId')
  if (place.marketId !== marketId) {
    return reject('INVALID_FIELD', 'before', 'before must be a trade of this market')
  }
  return { seq: place.sequence, fillIndex: place.fillIndex }
}
