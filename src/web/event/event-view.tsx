/** One event: its texts, its prices, and one row per market. */

import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { eventPrices } from '#domain/event-prices.ts'
import { eventPath } from '#domain/share-link.ts'
import type { EventDetail } from '#protocol/shapes/events.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { cents, NOTHING, shortMoney, timeLeft } from '../format.ts'
import { columnsOf } from '../list/market-columns.tsx'
import { ShareButton } from '../share-button.tsx'
import { secondsUntil } from '../state/clock.ts'
import { currentOf, readEvent } from '../state/events.ts'
import { chain } from '../state/exchange.ts'
import { markets } from '../state/markets.ts'
import { marketsLink } from '../state/router.ts'
import { Table } from '../table.tsx'
import { emojiOf, gapWords } from './event-words.ts'

export function EventView({ slug }: { readonly slug: string }) {
  const [shown] = useState(() => signal<EventDetail | 'missing' | undefined>(undefined))
  // Read the event again whenever the number of markets changes, because a new market may belong to the event.
  const count = markets.value?.length
  const chainId = chain.value?.chainId
  useEffect(() => {
    readEvent(slug, chainId).then(
      (event) => {
        shown.value = event
      },
      () => {
        if (shown.value === undefined) shown.value = 'missing'
      },
    )
  }, [slug, count, chainId])
  const event = shown.value
  useEffect(() => {
    if (typeof event === 'object') document.title = document.title.replace(/^Event/, event.title)
  }, [event])
  if (event === undefined) return <p class="empty">Loading …</p>
  if (event === 'missing') {
    return (
      <p class="empty">
        There is no such event. <a href={marketsLink.value}>All markets</a>
      </p>
    )
  }
  const rows = event.markets.map(currentOf)
  return (
    <>
      <Head event={event} rows={rows} />
      <section class="panel" aria-label="Markets of the event">
        <Table
          caption="Markets"
          rows={rows}
          columns={columnsOf()}
          keyOf={({ id }) => id}
          empty="The event has no markets."
          class="market-table"
        />
      </section>
    </>
  )
}

function Head({ event, rows }: { readonly event: EventDetail; readonly rows: readonly Market[] }) {
  const left = secondsUntil(event.end)
  const sum = (of: 'volume24h' | 'totalVolume') => {
    const total = rows.reduce<number | null>(
      (before, market) => (before === null || market[of] === null ? null : before + market[of]),
      0,
    )
    return total === null ? NOTHING : shortMoney(total)
  }
  return (
    <header class="market-head">
      <nav class="crumbs quiet" aria-label="Where you are">
        <a href={marketsLink.value}>Markets</a> / {event.category}
      </nav>
      <div class="market-title">
        <h1>
          {emojiOf(event)} {event.title}
        </h1>
        <span class={`badge ${left > 0 ? 'badge-up' : 'badge-warn'}`}>
          {left > 0 ? 'Open' : 'Ended'}
        </span>
        {event.tags.map((tag) => (
          <span key={tag} class="badge">
            {tag}
          </span>
        ))}
        <ShareButton path={eventPath(event)} />
      </div>
      <dl class="market-figures num">
        {event.exclusive ? <ExclusiveFigures rows={rows} /> : null}
        <div>
          <dt>Volume 24h</dt>
          <dd>{sum('volume24h')}</dd>
        </div>
        <div>
          <dt>Volume</dt>
          <dd>{sum('totalVolume')}</dd>
        </div>
        <div>
          <dt>{left > 0 ? 'Ends in' : 'Ended'}</dt>
          <dd>{left > 0 ? timeLeft(left) : NOTHING}</dd>
        </div>
      </dl>
      {event.description === '' ? null : <p class="event-description">{event.description}</p>}
      {event.exclusive ? <Gap rows={rows} /> : null}
    </header>
  )
}

/**
 * Shows the sum of the YES prices of an exclusive event. At most one of its markets pays, so the sum should be at most
 * one dollar.
 */
function ExclusiveFigures({ rows }: { readonly rows: readonly Market[] }) {
  const { yesSum, unpriced } = eventPrices(rows)
  return (
    <div title="At most one of these markets can resolve to YES">
      <dt>Sum of YES</dt>
      <dd>{unpriced === rows.length ? NOTHING : cents(yesSum)}</dd>
    </div>
  )
}

function Gap({ rows }: { readonly rows: readonly Market[] }) {
  const words = gapWords(eventPrices(rows))
  return words === undefined ? null : (
    <p class="event-gap" role="status">
      {words}
    </p>
  )
}
