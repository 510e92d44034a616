/**
 * Sends one permit of an owner at a time. A permit is public as soon as its transaction is in the pool, and any
 * account may submit it first. For a single permit this is harmless: it brings the same allowance. But each permit
 * replaces the allowance of the one before. If another account submits two at once, only the allowance of the second
 * remains, and the trade of the first takes from it. So a transaction contains at most one unused permit of an owner,
 * the one with the lowest nonce, and the next permit waits until that transaction is in a block.
 *
 *   waiting: A1 (permit 0)  A2 (permit 1)  A3 (no permit)      sent now: A1 A3      A2, once that is mined
 *
 * A trade that waits for others (`older-trades.ts`) keeps its turn only while none of them waits for a turn: two that
 * wait for each other would stop the chain until their deadline.
 */

import type { Address, OrderHash, TradeId } from '#domain/ids.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { PendingSettlement, SettlementState, Stage } from './state.ts'

const ON_ITS_WAY: ReadonlySet<Stage> = new Set(['submitting', 'sent'])

export function onePermitEach(
  state: SettlementState,
  waiting: readonly TradeToSettle[],
): readonly TradeToSettle[] {
  if (waiting.every((trade) => permitOf(state, trade) === undefined)) return waiting
  const turn = permitsInFlight(state)
  for (const { buyer, orderHash } of byNonce(state)) {
    if (!turn.has(buyer)) turn.set(buyer, orderHash)
  }
  return waiting.filter(
    (trade) => permitOf(state, trade) === undefined || turn.get(trade.buyer) === trade.buyOrderHash,
  )
}

/** Returns by owner the order with a permit in a transaction that is in no block yet. */
function permitsInFlight(state: SettlementState): Map<Address, OrderHash> {
  const inFlight = new Map<Address, OrderHash>()
  for (const { mined, ended, tradeIds } of state.flight.batches.values()) {
    if (mined || ended) continue
    for (const tradeId of tradeIds) {
      const trade = state.trades.get(tradeId)?.trade
      if (trade === undefined || permitOf(state, trade) === undefined) continue
      inFlight.set(trade.buyer, trade.buyOrderHash)
    }
  }
  return inFlight
}

export function permitOf({ flight }: SettlementState, { buy }: TradeToSettle) {
  return flight.usedPermits.has(buy.orderHash) ? undefined : buy.permit
}

/** True if both buys of one owner carry unused permits and the first has the lower nonce. */
export function isPermitBefore(
  state: SettlementState,
  first: TradeToSettle,
  second: TradeToSettle,
): boolean {
  if (first.buyer !== second.buyer) return false
  const [before, after] = [permitOf(state, first), permitOf(state, second)]
  return before !== undefined && after !== undefined && Number(before.nonce) < Number(after.nonce)
}

/** True if all trades that this one waits for end without a permit turn. */
function waitsForNoTurn(state: SettlementState, { missing }: PendingSettlement): boolean {
  const isFree = (tradeId: TradeId): boolean => {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || ON_ITS_WAY.has(pending.stage)) return true
    return pending.stage === 'queued' && permitOf(state, pending.trade) === undefined
  }
  return missing?.sides.every(({ changes }) => [...changes.keys()].every(isFree)) === true
}

/** Returns orders with an unused permit and trades to send, the lowest nonce first. */
function byNonce(
  state: SettlementState,
): readonly { readonly buyer: Address; readonly orderHash: OrderHash; readonly nonce: number }[] {
  return [...state.trades.values()]
    .filter((pending) => pending.retries === 0 && permitOf(state, pending.trade) !== undefined)
    .filter(
      (pending) =>
        pending.stage === 'queued' ||
        (pending.stage === 'awaitingOlder' && waitsForNoTurn(state, pending)),
    )
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
