/**
 * Who has settled a trade has a standing, until a trade fails by his fault. A wallet without funds gains one by
 * paying only.
 */

import type { Address } from '#domain/ids.ts'
import { SETTLEMENT_STANDING_MAX } from '#domain/limits.ts'
import type { TradeWithOrders } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/** Whether a trade is tried out before it goes into a batch. */
export function needsTrial(
  { standing }: SettlementState,
  { buyer, seller, status, attempts }: TradeWithOrders,
): boolean {
  // What may be on chain already is asked about first, with its batch.
  if (status !== 'matched' || attempts > 0) return false
  return !(standing.has(buyer) && standing.has(seller))
}

export function giveStanding({ standing }: SettlementState, traders: Iterable<Address>): void {
  for (const trader of traders) {
    standing.delete(trader)
    if (standing.size >= SETTLEMENT_STANDING_MAX) {
      for (const oldest of standing) {
        standing.delete(oldest)
        break
      }
    }
    standing.add(trader)
  }
}
