/** All markets: how likely, how tight, how much is traded, how long; found by words, category and order. */

import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Market } from '#client/answers.ts'
import { chanceOf } from '../chance.ts'
import { cents, NOTHING, percent, shortMoney, signedCents, timeLeft } from '../format.ts'
import { nowSec, secondsUntil } from '../state/clock.ts'
import { chain } from '../state/exchange.ts'
import { markets } from '../state/markets.ts'
import { marketLink } from '../state/router.ts'
import {
  categoriesOf,
  type Filter,
  isOver,
  listedMarkets,
  type Sort,
  spreadOf,
} from './market-rows.ts'
import { QuickStrip } from './quick-strip.tsx'

/** So many rows are shown at first, and more when they are asked for. */
const ROWS = 100
const YES = 0

/** Kept while other views are shown. */
const filter = signal<Filter>({ words: '', category: '', status: 'open', sort: 'volume' })
const rows = signal(ROWS)

function change(part: Partial<Filter>): void {
  filter.value = { ...filter.value, ...part }
  rows.value = ROWS
}

export function MarketList() {
  return (
    <>
      <h1 class="hidden-text">Markets</h1>
      <QuickStrip />
      <section class="panel" aria-label="All markets">
        <Controls />
        <Table />
      </section>
    </>
  )
}

/** `/` leads to the search, as on most pages with one. */
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
  const { words, category, status, sort } = filter.value
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
        onChange={(event) => change({ sort: event.currentTarget.value as Sort })}
      >
        <option value="volume">Most traded</option>
        <option value="ends">Ending first</option>
        <option value="chance">Most likely</option>
        <option value="newest">Newest</option>
      </select>
    </search>
  )
}

const CATEGORY_NAMES: Readonly<Record<string, string>> = {
  defi: 'DeFi',
  protocol: 'Protocols',
  stablecoin: 'Stablecoins',
  general: 'General',
}

function Table() {
  const all = markets.value
  if (all === undefined) return <p class="empty">Loading markets …</p>
  const here = all.filter(({ chainId }) => chainId === (chain.value?.chainId ?? chainId))
  const listed = listedMarkets(here, filter.value, nowSec.value)
  const shown = listed.slice(0, rows.value)
  if (listed.length === 0) {
    return (
      <p class="empty" role="status">
        {all.length === 0 ? 'There are no markets yet.' : 'No market is like that.'}
      </p>
    )
  }
  return (
    <>
      <table class="table market-table">
        <caption class="hidden-text">Markets</caption>
        <thead>
          <tr>
            <th scope="col">Market</th>
            <Head sort="chance">Chance</Head>
            <th scope="col" class="number wide">
              Bid / ask
            </th>
            <th scope="col" class="number">
              Spread
            </th>
            <th scope="col" class="number wide">
              24h
            </th>
            <Head sort="volume">24h volume</Head>
            <Head sort="ends">Ends in</Head>
          </tr>
        </thead>
        <tbody>
          {shown.map((market) => (
            <Row key={market.id} market={market} />
          ))}
        </tbody>
      </table>
      {shown.length < listed.length ? (
        <p class="more">
          <button
            type="button"
            onClick={() => {
              rows.value += ROWS
            }}
          >
            Show more of {listed.length}
          </button>
        </p>
      ) : null}
    </>
  )
}

function Head(props: { readonly sort: Sort; readonly children: ComponentChildren }) {
  const isSorted = filter.value.sort === props.sort
  const direction = props.sort === 'ends' ? 'ascending' : 'descending'
  return (
    <th
      scope="col"
      class={`number head-${props.sort}`}
      aria-sort={isSorted ? direction : undefined}
    >
      <button type="button" class="plain head" onClick={() => change({ sort: props.sort })}>
        <span aria-hidden="true" class="head-sign">
          {isSorted ? (props.sort === 'ends' ? '↑' : '↓') : ''}
        </span>
        {props.children}
      </button>
    </th>
  )
}

function Row({ market }: { readonly market: Market }) {
  const chance = chanceOf(market)
  const spread = spreadOf(market)
  const change24h = market.priceChanges24h?.[YES] ?? undefined
  const bid = market.bestBidPrices[YES]
  const ask = market.bestAskPrices[YES]
  return (
    <tr>
      <td class="market-cell">
        <a href={marketLink(market.id)}>{market.question}</a>
        <span class="market-tags">
          <span class="badge">{CATEGORY_NAMES[market.category] ?? market.category}</span>
          <State market={market} />
        </span>
      </td>
      <td class="num number chance">
        {chance === undefined ? (
          NOTHING
        ) : (
          <>
            <progress class="chance-bar" max={1_000_000} value={chance} aria-hidden="true" />
            <span class="chance-text">{percent(chance)}</span>
          </>
        )}
      </td>
      <td class="num number wide">
        <span class="up">{bid === 0 ? NOTHING : cents(bid)}</span>
        <span class="quiet"> / </span>
        <span class="down">{ask === 0 ? NOTHING : cents(ask)}</span>
      </td>
      <td class="num number quiet">{spread === undefined ? NOTHING : cents(spread)}</td>
      <td class={`num number wide ${tone(change24h)}`}>
        {change24h === undefined ? NOTHING : signedCents(change24h)}
      </td>
      <td class="num number head-volume">
        {market.volume24h === null ? NOTHING : shortMoney(market.volume24h)}
      </td>
      <td class="num number">
        <Left expiration={market.expiration} />
      </td>
    </tr>
  )
}

function tone(change: number | undefined): string {
  if (change === undefined || change === 0) return 'quiet'
  return change > 0 ? 'up' : 'down'
}

/** Apart, so that a second that passes changes this and nothing else. */
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
