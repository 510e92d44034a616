/** Opens a quick market at its market thread, and closes the market once it is resolved. */

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
 * Makes the functions that open and close quick markets at their market threads. A market thread refuses a market that
 * has already ended, unless the thread has loaded it before. The functions treat a refused market like an opened one,
 * and do not close it later.
 */
export function makeQuickPlaces(
  marketOf: Writers['marketOf'],
  maker: Address,
): Pick<QuickMarketsPorts, 'place' | 'close'> {
  /** Opens the market; returns false if the market has ended and its thread does not have it. */
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

/** Throws a retryable fault if a market thread did not execute the request. */
function done(answer: unknown | Unanswered): void {
  if (isUnanswered(answer)) {
    throw new Fault('MARKET_AWAY', `the market thread did not answer: ${answer.unanswered}`, {
      retryable: true,
    })
  }
  if (isRejection(answer)) throw new Fault(answer.rejected, answer.rejected, { retryable: true })
}

/** Builds the market, with the same texts as its contract. */
function marketFor(quickMarket: QuickMarket, maker: Address): Market {
  const { marketId, contractAddress, chainId, asset, startSec, strike, matching } = quickMarket
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
    ...(matching === undefined ? {} : { matching }),
  }
}
