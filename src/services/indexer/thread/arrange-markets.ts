/** Asks the market threads to open and close markets and to cancel withdrawn orders. */

import { MARKETS_OPEN_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Writers } from '#services/kit/kit.ts'
import type { MarketsDue } from '../indexer.ts'

/** Rejections that are not final: if `arrange` is called with the same request again, it sends the request again. */
const PASSING: readonly string[] = ['OVERLOADED', 'STORAGE_FULL']

type MarketArranger = {
  /**
   * Sends a separate request for each market or order, so that a request without an answer does not delay the others.
   */
  arrange(due: MarketsDue): Promise<void>
  /**
   * Forgets all answers, so that every request is sent again. After a reorg or with a new market thread, earlier
   * answers may no longer be correct.
   */
  forget(): void
}

export function makeMarketArranger(marketOf: Writers['marketOf']): MarketArranger {
  /** Requests to which a market thread has given a final answer. */
  const answered = new Set<string>()

  async function once(key: string, ask: () => Promise<unknown>): Promise<void> {
    if (answered.has(key)) return
    const answer = await ask()
    if (isUnanswered(answer)) return
    if (isRejection(answer) && PASSING.includes(answer.rejected)) return
    if (answered.size >= MARKETS_OPEN_MAX) answered.clear()
    answered.add(key)
  }

  return {
    async arrange({ open, cancel, close }) {
      await Promise.all([
        ...open.map((market) =>
          once(`open ${market.id}`, () => marketOf(market.id).ask('OpenMarket', { market })),
        ),
        ...cancel.map(({ marketId, trader, orderHash }) =>
          once(`cancel ${orderHash}`, () =>
            marketOf(marketId).ask('CancelOrders', { marketId, trader, orderHashes: [orderHash] }),
          ),
        ),
        ...close.map((one) =>
          once(`${one.reason} ${one.marketId}`, () =>
            marketOf(one.marketId).ask('CloseMarket', one),
          ),
        ),
      ])
    },
    forget: () => answered.clear(),
  }
}
