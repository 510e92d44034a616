/** All markets: probability, spread, volume and time left; with search, category and order. */

import { computed, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { chanceOf } from '#domain/chance.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { cents, NOTHING, percent, shortMoney, signedCents, timeLeft } from '../format.ts'
import { nowSec, secondsUntil } from '../state/clock.ts'
import { chain } from '../state/exchange.ts'
import { isWhole, markets, wantEnded } from '../state/markets.ts'
import { listQuery, marketLink, setListQuery } from '../state/router.ts'
import { watched } from '../state/watchlist.ts'
import { type Column, Table } from '../table.tsx'
import { WatchButton } from '../watch-button.tsx'
import { readFilter, writeFilter } from './list-address.ts'
import {
  categoriesOf,
  type Filter,
  isOver,
  listedMarkets,
  type Sort,
  spreadOf,
} from './market-rows.ts'
import { QuickStrip } from './quick-strip.tsx'

/** Rows shown at first, and added on request. */
const ROWS = 100
const YES = 0

const filter = computed(() => readFilter(listQuery.value))
const rows = signal(ROWS)

function change(part: Partial<Filter>): void {
  setListQuery(writeFilter({ ...filter.value, ...part }))
  rows.value = ROWS
}

export function MarketList() {
  return (
    <>
      <h1 class="hidden-text">Markets</h1>
      <QuickStrip />
      <section class="panel" aria-label="All markets">
        <Controls />
        <Listed />
      </section>
    </>
  )
}

/** `/` focuses the search, as on most pages. */
function useSearchKey(search: { readonly current: HTMLInputElement | null }): void {
  useEffect(() => {
    const heard = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.matches('input, select')
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      search.current?.focus()
    }
    addEventListener('keydown', heard)
    return () => removeEventListener('keydown', heard)
  }, [search])
}

function Controls() {
  const search = useRef<HTMLInputElement>(null)
  useSearchKey(search)
  const { words, category, status, sort, isReversed, isWatched } = filter.value
  return (
    <search class="list-controls">
      <input
        ref={search}
        type="search"
        aria-keyshortcuts="/"
        class="list-search"
        placeholder="Search markets"
        aria-label="Search markets"
        value={words}
        onInput={(event) => change({ words: event.currentTarget.value })}
      />
      <select
        aria-label="Category"
        value={category}
        onChange={(event) => change({ category: event.currentTarget.value })}
      >
        <option value="">All categories</option>
        {categoriesOf(markets.value ?? []).map((name) => (
          <option key={name} value={name}>
            {CATEGORY_NAMES[name] ?? name}
          </option>
        ))}
      </select>
      <select
        aria-label="State"
        value={status}
        onChange={(event) => change({ status: event.currentTarget.value as Filter['status'] })}
      >
        <option value="open">Open</option>
        <option value="over">Ended</option>
        <option value="all">Open and ended</option>
      </select>
      <select
        aria-label="Order"
        value={sort}
        onChange={(event) => change({ sort: event.currentTarget.value as Sort, isReversed: false })}
      >
        <option value="volume">Most traded</option>
        <option value="ends">Ending first</option>
        <option value="chance">Most likely</option>
        <option value="newest">Newest</option>
      </select>
      <button
        type="button"
        aria-pressed={isReversed}
        aria-label="Reverse the order"
        onClick={() => change({ isReversed: !isReversed })}
      >
        ⇅
      </button>
      <button
        type="button"
        aria-pressed={isWatched}
        onClick={() => change({ isWatched: !isWatched })}
      >
        ★ Watched
      </button>
    </search>
  )
}

const CATEGORY_NAMES: Readonly<Record<string, string>> = {
  defi: 'DeFi',
  protocol: 'Protocols',
  stablecoin: 'Stablecoins',
  general: 'General',
}

function Listed() {
  const all = markets.value
  const here = all?.filter(({ chainId }) => chainId === (chain.value?.chainId ?? chainId))
  const listed = here && listedMarkets(here, filter.value, nowSec.value, watched.value)
  const { status, isWatched } = filter.value
  const needsEnded = status !== 'open' || isWatched
  useEffect(() => {
    if (needsEnded) wantEnded()
  }, [needsEnded])
  const count = listed?.length ?? 0
  return (
    <>
      <Table
        caption="Markets"
        rows={count === 0 && !isWhole.value ? undefined : listed?.slice(0, rows.value)}
        columns={columnsOf(filter.value)}
        keyOf={({ id }) => id}
        empty={
          all?.length === 0
            ? 'There are no markets yet.'
            : isWatched
              ? 'You watch no market like that. The star before its name puts it on your list.'
              : 'No market is like that.'
        }
        class="market-table"
      />
      {isWhole.value ? null : <p class="more quiet">Loading more …</p>}
      {rows.value < count ? (
        <p class="more">
          <button
            type="button"
            onClick={() => {
              rows.value += ROWS
            }}
          >
            Show more of {count}
          </button>
        </p>
      ) : null}
    </>
  )
}

function columnsOf({ sort, isReversed }: Filter): readonly Column<Market>[] {
  const sortBy = (by: Sort) => {
    const isRising = (by === 'ends') !== isReversed
    return {
      direction:
        sort !== by ? undefined : isRising ? ('ascending' as const) : ('descending' as const),
      // A second click on the same column reverses the order.
      change: () => change({ sort: by, isReversed: sort === by && !isReversed }),
    }
  }
  return [
    { name: 'Market', class: 'market-cell', cell: (market) => <Name market={market} /> },
    {
      name: 'Chance',
      isNumber: true,
      class: 'head-chance',
      sort: sortBy('chance'),
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
      sort: sortBy('volume'),
      cell: ({ volume24h }) => (volume24h === null ? NOTHING : shortMoney(volume24h)),
    },
    {
      name: 'Ends in',
      isNumber: true,
      class: 'head-ends',
      sort: sortBy('ends'),
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
        <State market={market} />
      </span>
    </>
  )
}

/** A decided market shows its winner, and an ended one no probability. */
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

/** A separate component, so that each second renders only this. */
function Left({ expiration }: { readonly expiration: number }) {
  return <>{timeLeft(secondsUntil(expiration))}</>
}

const STATES = {
  resolved: 'Resolved',
  withdrawn: 'Withdrawn',
  expired: 'Awaits its outcome',
} as const

function State({ market }: { readonly market: Market }) {
  if (!isOver(market, nowSec.value)) return null
  const status = market.status === 'open' ? 'expired' : market.status
  return <span class={status === 'resolved' ? 'badge' : 'badge badge-warn'}>{STATES[status]}</span>
}
