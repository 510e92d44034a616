/**
 * Prevents the relayer from helping a trader to escape a match. Before it sends an operation that takes an approval, an
 * allowance, a permit's nonce or money from its owner's orders, one message makes the market threads refuse new orders
 * of that owner, and returns the needs of their open orders and unsettled trades. The hold lasts until the operation
 * has ended, so every match before that was part of the check.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { RelayKind } from '#domain/relay.ts'
import type { HeldOrders, TraderNeeds, UnsettledTrades } from '#domain/trader-hold.ts'
import type { RelayGuard } from './chain/relay-examination.ts'

/** Returns why the operation is refused: orders or trades still need the approval, allowance, nonce or funds. */
export function needsFlaw(
  { holds, field, buysMax }: RelayGuard,
  needs: TraderNeeds,
): Rejection | undefined {
  if (holds === 'sells') {
    if (needs.sells.count > 0) return tradesPending(field, needs.sells, 'this approval')
    if (needs.openSells === 0) return undefined
    const detail = `${field}: open sell orders still need this approval, cancel them first`
    return reject('ORDERS_OPEN', field, detail)
  }
  if (needs.unsettledCost > buysMax) return tradesPending(field, needs.buys, 'this allowance')
  const needed = needs.unsettledCost + needs.openCost
  if (needed <= buysMax) return undefined
  const detail = `${field}: open buy orders and unsettled trades need ${needed} units of stablecoin and ${buysMax} would be left for them, cancel the orders first`
  return reject('ORDERS_OPEN', field, detail)
}

/** `what` is the name of the approval, allowance or funds that the trades need. */
export function tradesPending(
  field: string,
  { count, tradeIds }: UnsettledTrades,
  what: string,
): Rejection {
  const detail =
    count === 1
      ? `1 unsettled trade still needs ${what}: retry when it has settled`
      : `${count} unsettled trades still need ${what}: retry when they have settled`
  return { ...reject('TRADES_PENDING', field, detail), tradeIds }
}

/** Returns the hold for an operation that an earlier process sent; its details are not known. */
export function heldAgain(kind: RelayKind): HeldOrders | undefined {
  if (kind === 'ctf-approval') return 'sells'
  return kind === 'stablecoin-permit' || kind === 'propose-resolution' ? 'buys' : undefined
}
