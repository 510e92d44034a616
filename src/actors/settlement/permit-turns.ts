/**
 * Sends one permit of an owner at a time. A permit is public as soon as its transaction is in the pool, and any
 * account may submit it first. For a single permit this is harmless: it brings the same allowance. But each permit
 * replaces the allowance of the one before. If another account submits two at once, only the allowance of the second
 * remains, and the trade of the first takes from it. So a transaction contains at most one unused permit of an owner,
 * the one with the lowest nonce, and the next permit waits until that transaction is in a block.
 *
 *   waiting: A1 (permit 0)  A2 (permit 1)  A3 (no permit)      sent now: A1 A3      A2, once that is mined
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { Place, SettlementState } from './state.ts'

const TO_BE_SENT: ReadonlySet<Place> = new Set(['queued', 'looking', 'trying', 'owed'])

export function onePermitEach(
  state: SettlementState,
  waiting: readonly TradeToSettle[],
): readonly TradeToSettle[] {
  if (waiting.every((trade) => permitOf(state, trade) === undefined)) return waiting
  const turn = permitsUnderWay(state)
  for (const { buyer, orderHash } of byNonce(state)) {
    if (!turn.has(buyer)) turn.set(buyer, orderHash)
  }
  return waiting.filter(
    (trade) => permitOf(state, trade) === undefined || turn.get(trade.buyer) === trade.buyOrderHash,
  )
}

/** By owner: the order whose permit is in a transaction that is in no block yet. */
function permitsUnderWay(state: SettlementState): Map<Address, OrderHash> {
  const underWay = new Map<Address, OrderHash>()
  for (const { mined, ended, tradeIds } of state.batches.values()) {
    if (mined || ended) continue
    for (const tradeId of tradeIds) {
      const trade = state.held.get(tradeId)?.trade
      if (trade === undefined || permitOf(state, trade) === undefined) continue
      underWay.set(trade.buyer, trade.buyOrderHash)
    }
  }
  return underWay
}

function permitOf({ usedPermits }: SettlementState, { buy }: TradeToSettle) {
  return usedPermits.has(buy.orderHash) ? undefined : buy.permit
}

/** Orders with an unused permit whose trades are to be sent, the lowest nonce first. */
function byNonce(
  state: SettlementState,
): readonly { readonly buyer: Address; readonly orderHash: OrderHash; readonly nonce: number }[] {
  return [...state.held.values()]
    .filter(({ place, setbacks }) => setbacks === 0 && TO_BE_SENT.has(place))
    .flatMap(({ trade }) => {
      const permit = permitOf(state, trade)
      if (permit === undefined) return []
      const nonce = Number(permit.nonce)
      const last = Number.POSITIVE_INFINITY
      return [
        {
          buyer: trade.buyer,
          orderHash: trade.buyOrderHash,
          nonce: Number.isNaN(nonce) ? last : nonce,
        },
      ]
    })
    .sort((a, b) => (a.nonce === b.nonce ? 0 : a.nonce - b.nonce))
}
