/**
 * Prevents a trader from using the relayer to make a matched trade fail. Some operations take away an approval, an
 * allowance, a permit's nonce or money that the owner's orders may need. Before the relayer sends such an operation, it
 * asks the market threads to refuse new orders of the owner. They answer with the needs of the owner's open orders and
 * unsettled trades. The refusal (hold) lasts until the operation has ended, so no match in the meantime escapes the
 * check.
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
    const detail = `${field} must stay true while open sell orders of the owner need the approval: cancel these orders first`
    return reject('ORDERS_OPEN', field, detail)
  }
  if (needs.unsettledCost > buysMax) return tradesPending(field, needs.buys, 'this allowance')
  const needed = needs.unsettledCost + needs.openCost
  if (needed <= buysMax) return undefined
  const detail =
    `open buy orders and unsettled trades of the owner need ${needed} millionths of the stablecoin, but only ` +
    `${buysMax} would be left: cancel the orders first`
  return reject('ORDERS_OPEN', field, detail)
}

/** Returns the rejection for pending trades. `what` is the name of the approval, allowance or funds that they need. */
export function tradesPending(
  field: string,
  { count, tradeIds }: UnsettledTrades,
  what: string,
): Rejection {
  const detail =
    count === 1
      ? `1 unsettled trade of the owner still needs ${what}: retry when it has settled`
      : `${count} unsettled trades of the owner still need ${what}: retry when they have settled`
  return { ...reject('TRADES_PENDING', field, detail), tradeIds }
}

/**
 * Returns which orders the market threads must refuse again for an operation that an earlier process sent; undefined if
 * none. The result depends only on the operation's kind, because its details are not known after a restart.
 */
export function heldAgain(kind: RelayKind): HeldOrders | undefined {
  if (kind === 'ctf-approval') return 'sells'
  return kind === 'stablecoin-permit' || kind === 'propose-resolution' ? 'buys' : undefined
}
