/** Parameters of lists of trades: the position at which a list continues. */

import Type from 'typebox'
import { type MarketId, parseTradeId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { MARKET_ID, TRADER } from '../orders/order-examples.ts'
import type { TradePlace } from './trade-pages.ts'

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

export function beforeTradeParam() {
  return Type.String({
    pattern: '^0x[0-9a-fA-F]{64}-[1-9][0-9]{0,15}-(0|[1-9][0-9]{0,9})$',
    description: 'Lists only trades before the trade with this `tradeId`',
  })
}

/** Returns the position from which a market's list of trades continues. Rejects a trade of another market. */
export function placeBefore(
  marketId: MarketId,
  before: string | undefined,
): TradePlace | undefined | Rejection {
  if (before === undefined) return undefined
  const place = parseTradeId(before.toLowerCase())
  if (place === undefined)
    return reject(
      'INVALID_FIELD',
      'before',
      'before must be a tradeId: the market id, the sequence number and the number of the fill, joined by hyphens',
    )
  if (place.marketId !== marketId) {
    return reject('INVALID_FIELD', 'before', 'before must be the tradeId of a trade in this market')
  }
  return { seq: place.sequence, fillIndex: place.fillIndex }
}
