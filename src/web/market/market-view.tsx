/** The view of one market: chart, book, trades, order ticket, the account's position, and the resolution. */

import { useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { Market } from '#protocol/shapes/markets.ts'
import { cents, NOTHING } from '../format.ts'
import { FaucetPanel } from '../portfolio/faucet-panel.tsx'
import { OpenOrders } from '../portfolio/open-orders.tsx'
import { account } from '../state/account.ts'
import { nowSec, secondsUntil } from '../state/clock.ts'
import { marketsLink, type TradeIntent, takeIntent } from '../state/router.ts'
import { firstInterval } from './candle-series.ts'
import { ChartPanel } from './chart-panel.tsx'
import { Ladder, type PickLevel } from './ladder.tsx'
import { MarketHead } from './market-head.tsx'
import { createMarketModel } from './market-model.ts'
import { HoldersPanel, OwnActivity } from './market-people.tsx'
import { OwnPosition } from './own-position.tsx'
import { QuickHead } from './quick-head.tsx'
import { createQuick } from './quick-model.ts'
import { QuickPast } from './quick-past.tsx'
import { Resolution, Rules } from './resolution-panel.tsx'
import { Tape } from './tape.tsx'
import { Ticket } from './ticket.tsx'
import { createTicket } from './ticket-model.ts'
import { createSubmitting } from './ticket-submit.ts'

/** Parts of the view. A narrow screen shows one part at a time. */
const PARTS = ['chart', 'book', 'trade', 'info'] as const
type Part = (typeof PARTS)[number]
const PART_WORDS = { chart: 'Chart', book: 'Book', trade: 'Trade', info: 'Info' } as const

/**
 * Makes the models of a market's view and runs them while the view is shown. Also returns the functions that prepare
 * the order ticket.
 */
function useMarket(marketId: string) {
  const { model, ticket, submitting, quick } = useMemo(() => {
    const made = createMarketModel(marketId)
    const paper = createTicket(made)
    return {
      model: made,
      ticket: paper,
      submitting: createSubmitting(made, paper),
      quick: createQuick(made),
    }
  }, [marketId])
  useEffect(() => {
    const stops = [model.start(), ticket.start(), quick.start()]
    return () => {
      for (const stop of stops) stop()
    }
  }, [model, ticket, quick])
  const part = useSignal<Part | undefined>(undefined)
  const prepare = useMemo(
    () => (intent: TradeIntent) => {
      ticket.prepare(intent)
      part.value = 'trade'
    },
    [ticket, part],
  )
  useEffect(() => {
    const intent = takeIntent()
    if (intent !== undefined) prepare(intent)
  }, [prepare])
  const pick = useMemo<PickLevel>(
    () => (level) => {
      ticket.take(level)
      part.value = 'trade'
    },
    [ticket, part],
  )
  return { model, ticket, submitting, quick, part, prepare, pick }
}

export function MarketView({ marketId }: { readonly marketId: string }) {
  const { model, ticket, submitting, quick, part, prepare, pick } = useMarket(marketId)
  const market = model.market.value
  if (market === undefined) return <p class="empty">Loading …</p>
  if (market === null) {
    return (
      <p class="empty">
        There is no such market. <a href={marketsLink.value}>All markets</a>
      </p>
    )
  }
  const isOpen = market.status === 'open' && secondsUntil(market.expiration) > 0
  const parts = isOpen ? PARTS : PARTS.filter((one) => one !== 'book')
  // After a market has ended, traders open its view to see the outcome and to redeem shares. So the view begins with
  // the info part.
  const shown = part.value ?? (isOpen ? 'chart' : 'info')
  return (
    <article class="market" data-part={shown}>
      <MarketHead market={market} model={model} quick={quick} />
      {market.quick ? <QuickHead quick={quick} /> : null}
      <fieldset class="market-parts">
        <legend class="hidden-text">Part of the market</legend>
        {parts.map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={shown === one}
            onClick={() => {
              part.value = one
            }}
          >
            {PART_WORDS[one]}
          </button>
        ))}
      </fieldset>
      <div class="market-column market-main">
        <div class="in-chart">
          <ChartPanel
            model={model}
            quick={quick}
            first={firstInterval(nowSec.peek() - market.createdAt)}
            isOpen={isOpen}
          />
        </div>
        {account.value === undefined ? null : (
          <div class="in-trade market-own">
            <OpenOrders marketId={marketId} />
            <OwnPosition model={model} prepare={prepare} />
          </div>
        )}
        <div class={`in-info market-own ${market.quick ? 'in-past' : ''}`}>
          {market.quick ? <QuickPast quick={quick} /> : null}
          <OwnActivity model={model} />
        </div>
      </div>
      <div class="market-column market-middle">
        {isOpen ? (
          <div class="in-book">
            <Ladder model={model} pick={pick} />
          </div>
        ) : null}
        <div class="in-chart in-tape">
          <Tape model={model} />
        </div>
      </div>
      <div class="market-column market-side">
        <div class="in-trade in-ticket">
          <FaucetPanel />
          {isOpen ? (
            <Ticket model={model} ticket={ticket} submitting={submitting} />
          ) : (
            <p class="panel empty">Trading has ended.</p>
          )}
        </div>
        <div class="in-info in-rules">
          <Resolution model={model} market={market} quick={quick} />
          <Rules market={market} quick={quick} />
          <HoldersPanel model={model} />
        </div>
      </div>
      <QuickBuy market={market} prepare={prepare} isHidden={shown === 'trade'} />
    </article>
  )
}

/** Buttons at the bottom of a narrow screen. One tap opens the order ticket. */
function QuickBuy(props: {
  readonly market: Market
  readonly prepare: (intent: TradeIntent) => void
  readonly isHidden: boolean
}) {
  const { market } = props
  const buy = (outcome: 'YES' | 'NO') => props.prepare({ side: 'buy', outcome })
  if (props.isHidden || market.status !== 'open') return null
  const [yes, no] = market.bestAskPrices
  return (
    <div class="market-buy">
      <button type="button" class="buy-yes" onClick={() => buy('YES')}>
        Buy YES <span class="num">{yes === 0 ? NOTHING : cents(yes)}</span>
      </button>
      <button type="button" class="buy-no" onClick={() => buy('NO')}>
        Buy NO <span class="num">{no === 0 ? NOTHING : cents(no)}</span>
      </button>
    </div>
  )
}
