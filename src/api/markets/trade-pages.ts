/**
 * Pages of a market's trades as response JSON. A page of old trades is written on the thread that reads the database,
 * so the front receives one text instead of a thousand values.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId } from '#domain/ids.ts'
import type { ListedTrade, Trade } from '#domain/trade.ts'
import type { MatchedField } from '#protocol/shapes/trades.ts'

/** Position of a trade in its market. */
export type TradePlace = Pick<Trade, 'seq' | 'fillIndex'>

/** Request for the trades of a market that come before a given trade. */
export type EarlierTradesPage = {
  readonly list: TradeList
  readonly marketId: MarketId
  readonly limit: number
  readonly before: TradePlace
}

/** Names of the two lists of a market's trades. The name is also the list's field in the answer. */
export type TradeList = 'trades' | 'activity'

/**
 * Returns the JSON of the fields that never change after the match, for REST and the stream. None of the values needs
 * escaping.
 */
export function matchedJson({
  tradeId,
  price,
  size,
  buyer,
  seller,
  outcome,
  kind,
}: Pick<Trade, MatchedField>): string {
  return (
    `"tradeId":"${tradeId}","price":${price},"size":${size},` +
    `"buyer":"${checksumAddress(buyer)}","seller":"${checksumAddress(seller)}","outcome":${outcome}${
      kind === undefined ? '' : `,"kind":"${kind}"`
    }`
  )
}

/** Returns a trade as JSON without its closing brace, so that a caller can add fields. */
function openTradeJson(trade: ListedTrade): string {
  const { txHash, status, seq } = trade
  return (
    `{${matchedJson(trade)},"timestamp":${Math.floor(trade.matchedAtMs / 1_000)},` +
    `"txHash":"${txHash}","status":"${status}","seq":${seq}`
  )
}

const TRADE_JSON: Readonly<Record<TradeList, (trade: ListedTrade) => string>> = {
  trades: (trade) => `${openTradeJson(trade)}}`,
  activity: (trade) => `${openTradeJson(trade)},"takerSide":${trade.takerSide}}`,
}

/** Returns a page of these trades as JSON. A full page includes the position at which the next page begins. */
export function tradesPageJson(
  list: TradeList,
  marketId: MarketId,
  trades: readonly ListedTrade[],
  limit: number,
): string {
  const last = trades.length < limit ? undefined : trades.at(-1)
  const next = last === undefined ? 'null' : `"${last.tradeId}"`
  return (
    `{"marketId":"${marketId}","${list}":[${trades.map(TRADE_JSON[list]).join(',')}],` +
    `"count":${trades.length},"nextBefore":${next}}`
  )
}
