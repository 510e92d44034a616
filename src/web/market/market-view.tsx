/** One market. */

import { timeLeft } from '../format.ts'
import { secondsUntil } from '../state/clock.ts'
import { marketOf, markets } from '../state/markets.ts'
import { MARKETS_LINK } from '../state/router.ts'

export function MarketView({ marketId }: { readonly marketId: string }) {
  const market = marketOf(marketId)
  if (markets.value === undefined) return <p class="empty">Loading …</p>
  if (market === undefined) {
    return (
      <p class="empty">
        There is no such market. <a href={MARKETS_LINK}>All markets</a>
      </p>
    )
  }
  return (
    <article class="market">
      <h1>{market.question}</h1>
      <p class="quiet">{market.description}</p>
      <p class="num">{timeLeft(secondsUntil(market.expiration))}</p>
    </article>
  )
}
