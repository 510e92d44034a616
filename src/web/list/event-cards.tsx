/** Shows the most traded events, one card per event. Each card lists the event's first markets. */

import { useEffect } from 'preact/hooks'
import { chanceOf } from '#domain/chance.ts'
import type { Event } from '#protocol/shapes/events.ts'
import { emojiOf } from '../event/event-words.ts'
import { NOTHING, percent, shortMoney, timeLeft } from '../format.ts'
import { secondsUntil } from '../state/clock.ts'
import { currentOf, events, readEvents } from '../state/events.ts'
import { chain } from '../state/exchange.ts'
import { markets } from '../state/markets.ts'
import { eventLink, marketLink } from '../state/router.ts'

/** Number of markets on a card. */
const MARKETS_SHOWN = 3

export function EventCards() {
  // Reads the events again whenever the number of markets changes, because an event's market may have opened or ended.
  const count = markets.value?.length
  useEffect(() => void readEvents(), [count])
  const shown = events.value?.filter(({ chainId }) => chainId === (chain.value?.chainId ?? chainId))
  if (shown === undefined || shown.length === 0) return null
  return (
    <section class="event-cards" aria-label="Events">
      {shown.map((event) => (
        <Card key={event.hash} event={event} />
      ))}
    </section>
  )
}

function Card({ event }: { readonly event: Event }) {
  const { title, marketCount, totalVolume, end } = event
  const more = marketCount - MARKETS_SHOWN
  return (
    <article class="panel event-card">
      <h2>
        <a href={eventLink(event.slug)}>
          {emojiOf(event)} {title}
        </a>
      </h2>
      <ul class="num">
        {event.markets.slice(0, MARKETS_SHOWN).map((market) => {
          const chance = chanceOf(currentOf(market))
          return (
            <li key={market.id}>
              <a class="event-market" href={marketLink(market.id)}>
                {market.question}
              </a>
              <strong>{chance === undefined ? NOTHING : percent(chance)}</strong>
            </li>
          )
        })}
      </ul>
      <p class="quiet num">
        {more > 0 ? <a href={eventLink(event.slug)}>{more} more · </a> : null}
        {totalVolume === null ? NOTHING : shortMoney(totalVolume)} traded ·{' '}
        {timeLeft(secondsUntil(end))}
      </p>
    </article>
  )
}
