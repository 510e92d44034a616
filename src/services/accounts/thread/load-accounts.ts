/** Loads the needs of an accounts thread's traders from the database. */

import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { Reads } from '#store/reads/reads.ts'
import type { LoadedAccounts } from '../state.ts'

/**
 * Maximum time after a market's closing within which a reorg may revert its trades. Markets closed longer ago are not
 * loaded.
 */
export const REORG_MS_MAX = 86_400_000

export async function loadAccounts(
  reads: Pick<Reads, 'openNeeds'>,
  isMine: (trader: Address) => boolean,
  nowMs: number,
): Promise<LoadedAccounts> {
  const checkpoints: LoadedAccounts['checkpoints'][number][] = []
  const markets: LoadedAccounts['markets'][number][] = []
  const orders: LoadedAccounts['orders'][number][] = []
  const trades: LoadedAccounts['trades'][number][] = []
  const closedSinceMs = nowMs - REORG_MS_MAX
  await reads.openNeeds({ closedSinceMs }, (page) => {
    if ('checkpoints' in page) checkpoints.push(...page.checkpoints)
    else if ('markets' in page) markets.push(...page.markets)
    else if ('orders' in page) {
      for (const order of page.orders) if (isMine(order.trader)) orders.push(order)
    } else {
      for (const trade of page.trades) {
        if (isMine(trade.buyer) || isMine(trade.seller)) trades.push(trade)
      }
    }
  })
  // The store has written no log checkpoints to the database yet, so the position at which to read is unknown.
  if (checkpoints.length === 0) {
    throw new Fault(
      'STORE_AWAY',
      'the database has no positions in the event log yet, because the store thread has not written any',
      { retryable: true },
    )
  }
  return { checkpoints, markets, orders, trades }
}
