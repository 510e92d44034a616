/** Where a quick market is traded: opened at the thread of its market, and closed there once it is resolved. */

import { quickDescription, quickQuestion } from '#chain/market-factory.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import { endSecOf, type QuickMarket } from '#domain/quick-market.ts'
import { isRejection } from '#domain/rejection.ts'
import { isUnanswered, type Unanswered } from '#runtime/channel.ts'
import type { Writers } from '#services/kit/kit.ts'
import type { QuickMarketsPorts } from '../quick-markets/state.ts'

/**
 * A thread that has nothing of a market whose end is past does not open it: it was never opened there, or it
 * was unloaded. It stays so, so such a market counts as placed, and needs no closing.
 */
export function makeQuickPlaces(
  marketOf: Writers['marketOf'],
  maker: Address,
): Pick<QuickMarketsPorts, 'place' | 'close'> {
  /** False where it is over and nothing of it is there. */
  async function place(quickMarket: QuickMarket): Promise<boolean> {
    const market = marketFor(quickMarket, maker)
    const answer = await marketOf(market.id).ask('OpenMarket', { market })
    if (isRejection(answer) && answer.rejected === 'MARKET_CLOSED') return false
    done(answer)
    return true
  }

  return {
    place,
    async close(quickMarket) {
      if (!(await place(quickMarket))) return
      const { marketId } = quickMarket
      done(await marketOf(marketId).ask('CloseMarket', { marketId, reason: 'resolved' }))
    },
  }
}

/** What a market thread did not do is a fault, and tried again. */
function done(answer: unknown | Unanswered): void {
  if (isUnanswered(answer)) {
    throw new Fault('MARKET_AWAY', `the market thread is ${answer.unanswered}`, {
      retryable: true,
    })
  }
  if (isRejection(answer)) throw new Fault(answer.rejected, answer.rejected, { retryable: true })
}

/** The market as its contract words it. */
function marketFor(quickMarket: QuickMarket, maker: Address): Market {
  const { marketId, contractAddress, chainId, asset, startSec, strike } = quickMarket
  const endSec = endSecOf(quickMarket)
  const { source } = strike
  return {
    id: marketId,
    question: quickQuestion(asset),
    description: quickDescription({
      startPrice: BigInt(strike.price),
      startSec,
      endSec,
      source,
    }),
    category: 'general',
    contractAddress,
    maker,
    expiration: endSec,
    chainId,
    createdAt: Math.floor(quickMarket.createdAtMs / 1_000),
    quick: true,
  }
}
