/** Head of a quick market: the live price against the strike, the time left, and the result. */

import { assetPrice, countdown, NOTHING, signedDifference } from '../format.ts'
import { nowSec } from '../state/clock.ts'
import { marketLink } from '../state/router.ts'
import type { QuickModel } from './quick-model.ts'
import { quickStanding } from './quick-standing.ts'

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
})

export function QuickHead({ quick }: { readonly quick: QuickModel }) {
  const market = quick.market.value
  if (market === undefined) return null
  const { startPrice, startTime, endTime, endPrice } = market
  const standing = quickStanding(market, quick.price.value, nowSec.value)
  const isOver = standing.state !== 'running'
  const price = isOver ? (endPrice ?? undefined) : quick.price.value
  const colour =
    standing.isUp === undefined || (isOver && price === undefined)
      ? ''
      : standing.isUp
        ? 'up'
        : 'down'
  const next = quick.next.value
  return (
    <div class="panel quick-head">
      <div class="quick-figure">
        <span class="quiet">{isOver ? 'Price at the end' : `${market.asset} now`}</span>
        <span class={`num quick-large ${colour}`}>
          {price === undefined ? NOTHING : assetPrice(price)}
        </span>
        <span class={`num ${colour}`}>
          {price === undefined ? NOTHING : signedDifference(price - startPrice)}
        </span>
      </div>
      <div class="quick-figure">
        <span class="quiet">Strike at {clock.format(startTime * 1_000)}</span>
        <span class="num quick-large">{assetPrice(startPrice)}</span>
        <span class="quiet">source {market.priceSource}</span>
      </div>
      <div class="quick-figure">
        <span class="quiet">{isOver ? 'Ended at' : 'Ends in'}</span>
        <span class="num quick-large">
          {isOver ? clock.format(endTime * 1_000) : countdown(endTime - nowSec.value)}
        </span>
        <span class="quiet">{isOver ? '' : `at ${clock.format(endTime * 1_000)}`}</span>
      </div>
      <div class="quick-verdict">
        <strong class={colour} role={isOver ? 'status' : undefined}>
          {standing.words}
        </strong>
        {isOver && next !== undefined ? (
          <a class="quick-next" href={marketLink(next.marketId)}>
            Next {next.asset} market →
          </a>
        ) : null}
      </div>
    </div>
  )
}
