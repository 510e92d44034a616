/** Columns of a list of markets. */

import { chanceOf } from '#domain/chance.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { cents, NOTHING, percent, shortMoney, signedCents, timeLeft } from '../format.ts'
import { MatchingBadge } from '../matching-badge.tsx'
import { nowSec, secondsUntil } from '../state/clock.ts'
import { eventLink, marketLink, route } from '../state/router.ts'
import type { Column } from '../table.tsx'
import { WatchButton } from '../watch-button.tsx'
import { type Filter, isOver, type Sort, spreadOf } from './market-rows.ts'

const YES = 0

export const CATEGORY_NAMES: Readonly<Record<string, string>> = {
  defi: 'DeFi',
  protocol: 'Protocols',
  stablecoin: 'Stablecoins',
  general: 'General',
}

/** The part of the list's filter that decides the order of the rows. A click on a column head changes this part. */
type Order = Pick<Filter, 'sort' | 'isReversed'> & {
  readonly change: (part: Pick<Filter, 'sort' | 'isReversed'>) => void
}

/**
 * Returns the columns of a list of markets. If `order` is undefined, a click on a column head does not sort the list.
 */
export function columnsOf(order?: Order): readonly Column<Market>[] {
  const sortBy = (by: Sort) => {
    if (order === undefined) return {}
    const { sort, isReversed, change } = order
    const isRising = (by === 'ends') !== isReversed
    const direction = isRising ? ('ascending' as const) : ('descending' as const)
    // A second click on the same column reverses the order.
    const next = () => change({ sort: by, isReversed: sort === by && !isReversed })
    return { sort: { direction: sort === by ? direction : undefined, change: next } }
  }
  return [
    { name: 'Market', class: 'market-cell', cell: (market) => <Name market={market} /> },
    {
      name: 'Chance',
      isNumber: true,
      class: 'head-chance',
      ...sortBy('chance'),
      cell: (market) => <Chance market={market} />,
    },
    { name: 'Buy', class: 'buy-cell', cell: (market) => <Buy market={market} /> },
    {
      name: 'Spread',
      isNumber: true,
      class: 'head-spread',
      tone: 'quiet',
      cell: (market) => {
        const spread = spreadOf(market)
        return spread === undefined ? NOTHING : cents(spread)
      },
    },
    {
      name: '24h',
      isNumber: true,
      isWide: true,
      class: 'head-change',
      tone: (market) => tone(market.priceChanges24h?.[YES] ?? undefined),
      cell: ({ priceChanges24h }) => {
        const moved = priceChanges24h?.[YES] ?? undefined
        return moved === undefined ? NOTHING : signedCents(moved)
      },
    },
    {
      name: '24h volume',
      isNumber: true,
      class: 'head-volume',
      ...sortBy('volume'),
      cell: ({ volume24h }) => (volume24h === null ? NOTHING : shortMoney(volume24h)),
    },
    {
      name: 'Ends in',
      isNumber: true,
      class: 'head-ends',
      ...sortBy('ends'),
      cell: ({ expiration }) => <Left expiration={expiration} />,
    },
  ]
}

function Name({ market }: { readonly market: Market }) {
  return (
    <>
      <WatchButton marketId={market.id} question={market.question} />
      <a href={marketLink(market.id)}>{market.question}</a>
      <span class="market-tags">
        <span class="badge">{CATEGORY_NAMES[market.category] ?? market.category}</span>
        <OfEvent market={market} />
        <MatchingBadge market={market} />
        <State market={market} />
      </span>
    </>
  )
}

/** Shows a link to the market's event. The event's own view shows no such link. */
function OfEvent({ market }: { readonly market: Market }) {
  const { event } = market
  if (event === null || event === undefined || route.value.view === 'event') return null
  return (
    <a class="badge" href={eventLink(event.slug)}>
      {event.title}
    </a>
  )
}

/**
 * Shows the winner of a decided market, otherwise the probability. A market that has ended without a winner shows no
 * probability.
 */
function Chance({ market }: { readonly market: Market }) {
  const winner = market.winningOutcome
  if (winner !== undefined) {
    return <strong class={winner === 0 ? 'up' : 'down'}>{winner === 0 ? 'YES' : 'NO'} won</strong>
  }
  const chance = isOver(market, nowSec.value) ? undefined : chanceOf(market)
  if (chance === undefined) return <>{NOTHING}</>
  return (
    <>
      <progress class="chance-bar" max={1_000_000} value={chance} aria-hidden="true" />
      <span class="chance-text">{percent(chance)}</span>
    </>
  )
}

/** Price of one share of each outcome, with a link to the ticket. */
function Buy({ market }: { readonly market: Market }) {
  if (isOver(market, nowSec.value)) return null
  return (
    <span class="buy-links num">
      {(['YES', 'NO'] as const).map((outcome, at) => {
        const ask = market.bestAskPrices[at] ?? 0
        return (
          <a
            key={outcome}
            class={`button small ${at === 0 ? 'buy-yes' : 'buy-no'}`}
            href={marketLink(market.id, { side: 'buy', outcome })}
          >
            <span class="hidden-text">Buy </span>
            {outcome} <strong>{ask === 0 ? NOTHING : cents(ask)}</strong>
            <span class="hidden-text"> of {market.question}</span>
          </a>
        )
      })}
    </span>
  )
}

function tone(change: number | undefined): string {
  if (change === undefined || change === 0) return 'quiet'
  return change > 0 ? 'up' : 'down'
}

/** Shows the time left of a market. It is a separate component, so that only this part is rendered each second. */
function Left({ expiration }: { readonly expiration: number }) {
  return <>{timeLeft(secondsUntil(expiration))}</>
}

const STATES = {
  resolved: 'Resolved',
  withdrawn: 'Withdrawn',
  expired: 'Waiting for its outcome',
} as const

function State({ market }: { readonly market: Market }) {
  if (!isOver(market, nowSec.value)) return null
  const status = market.status === 'open' ? 'expired' : market.status
  return <span class={status === 'resolved' ? 'badge' : 'badge badge-warn'}>{STATES[status]}</span>
}
