/** Head of the view: the question, the prices of both outcomes, and the market's status. */

import { chanceOf } from '#domain/chance.ts'
import { ONE } from '#domain/money.ts'
import { marketPath } from '#domain/share-link.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import {
  assetPrice,
  cents,
  NOTHING,
  percent,
  shortMoney,
  signedCents,
  timeLeft,
} from '../format.ts'
import { MatchingBadge } from '../matching-badge.tsx'
import { ShareButton } from '../share-button.tsx'
import { secondsUntil } from '../state/clock.ts'
import { eventLink, marketsLink } from '../state/router.ts'
import { WatchButton } from '../watch-button.tsx'
import type { MarketModel } from './market-model.ts'
import type { QuickModel } from './quick-model.ts'

const STATUS_WORDS = {
  open: 'Open',
  expired: 'Expired',
  resolved: 'Resolved',
  withdrawn: 'Withdrawn',
} as const

const ends = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

export function MarketHead(props: {
  readonly market: Market
  readonly model: MarketModel
  readonly quick: QuickModel
}) {
  const { market, model } = props
  const running = props.quick.market.value
  const title =
    running === undefined
      ? market.question
      : `Is ${running.asset} at or above ${assetPrice(running.startPrice)} at the end?`
  const left = secondsUntil(market.expiration)
  const status = market.status === 'open' && left <= 0 ? 'expired' : market.status
  return (
    <header class="market-head">
      <nav class="crumbs quiet" aria-label="Where you are">
        <a href={marketsLink.value}>Markets</a> /{' '}
        {market.event ? (
          <a href={eventLink(market.event.slug)}>{market.event.title}</a>
        ) : market.quick ? (
          'quick'
        ) : (
          market.category
        )}
      </nav>
      <div class="market-title">
        <h1>{title}</h1>
        <WatchButton marketId={market.id} question={title} />
        <span class={`badge ${status === 'open' ? 'badge-up' : 'badge-warn'}`}>
          {STATUS_WORDS[status]}
        </span>
        <MatchingBadge market={market} />
        <ShareButton path={marketPath(market)} />
      </div>
      <dl class="market-figures num">
        {status === 'open' ? (
          <>
            <Chance model={model} market={market} which={0} />
            <Chance model={model} market={market} which={1} />
          </>
        ) : (
          <Outcome model={model} quick={props.quick} />
        )}
        <div>
          <dt>Volume 24h</dt>
          <dd>{market.volume24h === null ? NOTHING : shortMoney(market.volume24h)}</dd>
        </div>
        <div class="wide">
          <dt>Volume</dt>
          <dd>{market.totalVolume === null ? NOTHING : shortMoney(market.totalVolume)}</dd>
        </div>
        <div title={ends.format(market.expiration * 1_000)}>
          <dt>{left > 0 ? 'Ends in' : 'Ended'}</dt>
          <dd>{left > 0 ? timeLeft(left) : ends.format(market.expiration * 1_000)}</dd>
        </div>
      </dl>
    </header>
  )
}

/**
 * Shows the outcome of a market that has ended: the winner, or the state of the resolution. No probability is shown for
 * such a market.
 */
function Outcome({ model, quick }: { readonly model: MarketModel; readonly quick: QuickModel }) {
  const winner = model.resolution.value?.winningOutcome ?? quick.market.value?.outcome ?? undefined
  const assertion = model.resolution.value?.assertion
  const waiting =
    assertion === undefined
      ? 'Not decided yet'
      : `${assertion.proposedOutcome ? 'YES' : 'NO'} is ${assertion.disputed ? 'disputed' : 'proposed'}`
  return (
    <div>
      <dt>Outcome</dt>
      <dd>
        {winner === undefined ? (
          waiting
        ) : (
          <strong class={winner === 0 ? 'up' : 'down'}>
            {winner === 0 ? 'YES' : 'NO'} has won
          </strong>
        )}
      </dd>
    </div>
  )
}

/**
 * Shows the chance and the last price of an outcome. The chance of NO is always 100% minus the chance of YES. The last
 * price is that of the outcome's own trades.
 */
function Chance(props: {
  readonly model: MarketModel
  readonly market: Market
  readonly which: 0 | 1
}) {
  const { model, market, which } = props
  const traded = model.tape.value.find(({ outcome }) => outcome === which)?.price
  const last = traded ?? market.lastPrices?.[which] ?? 0
  const yes = chanceOf(liveOf(model, market))
  const shown = yes === undefined || which === 0 ? yes : ONE - yes
  const change = market.priceChanges24h?.[which] ?? null
  return (
    <div>
      <dt>{which === 0 ? 'YES' : 'NO'}</dt>
      <dd>
        <strong class={which === 0 ? 'up' : 'down'}>
          {shown === undefined ? NOTHING : percent(shown)}
        </strong>{' '}
        {last > 0 ? <span class="quiet">last {cents(last)}</span> : null}{' '}
        {change === null || change === 0 ? null : (
          <span class={change > 0 ? 'up' : 'down'}>{signedCents(change)}</span>
        )}
      </dd>
    </div>
  )
}

/**
 * Returns the best bid, the best ask and the last price of both outcomes. For the chosen outcome, the best bid and the
 * best ask come from the live book. The other values come from `market`.
 */
function liveOf({ book, outcome }: MarketModel, market: Market) {
  const frame = book.value
  if (frame === undefined) return market
  const at = outcome.value === 'YES' ? 0 : 1
  const [bid, ask] = [frame.bids[0]?.price ?? 0, frame.asks[0]?.price ?? 0]
  const put = ([yes, no]: readonly [number, number], live: number): [number, number] =>
    at === 0 ? [live, no] : [yes, live]
  return {
    bestBidPrices: put(market.bestBidPrices, bid),
    bestAskPrices: put(market.bestAskPrices, ask),
    lastPrices: market.lastPrices,
  }
}
