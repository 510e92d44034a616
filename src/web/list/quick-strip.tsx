/** Shows the open quick markets, each with the live price against the strike, and the time left. */

import { assetPrice, countdown, NOTHING, signedDifference } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { type QuickAsset, quickAssets } from '../state/quick-markets.ts'
import { marketLink } from '../state/router.ts'

export function QuickStrip() {
  const open = quickAssets.value.filter(({ market }) => market !== undefined)
  if (open.length === 0) return null
  return (
    <section aria-label="Quick markets" class="quick-strip">
      {open.map((one) => (
        <QuickCard key={one.asset} {...one} />
      ))}
    </section>
  )
}

function QuickCard({ asset, market, price }: QuickAsset) {
  if (market === undefined) return null
  const isUp = price === undefined ? undefined : price >= market.startPrice
  const colour = isUp === undefined ? '' : isUp ? 'up' : 'down'
  const minutes = Math.round((market.endTime - market.startTime) / 60)
  return (
    <a class="quick-card panel" href={marketLink(market.marketId)}>
      <span class="quick-name">
        {asset} <span class="quiet">up in {minutes} minutes?</span>
      </span>
      <span class="num quick-left">{countdown(market.endTime - nowSec.value)}</span>
      <span class={`num quick-price ${colour}`}>
        {price === undefined ? NOTHING : assetPrice(price)}
      </span>
      <span class={`num ${colour}`}>
        {price === undefined ? NOTHING : signedDifference(price - market.startPrice)}
      </span>
      <span class="quiet">Strike</span>
      <span class="num quiet">{assetPrice(market.startPrice)}</span>
    </a>
  )
}
