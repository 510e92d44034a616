/**
 * The list of all markets with probability, spread, volume and time left. The user can search it, filter it by
 * category, and sort it.
 */

import { computed, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { nowSec } from '../state/clock.ts'
import { chain } from '../state/exchange.ts'
import { isWhole, markets, wantEnded } from '../state/markets.ts'
import { listQuery, setListQuery } from '../state/router.ts'
import { watched } from '../state/watchlist.ts'
import { Table } from '../table.tsx'
import { EventCards } from './event-cards.tsx'
import { readFilter, writeFilter } from './list-address.ts'
import { CATEGORY_NAMES, columnsOf } from './market-columns.tsx'
import { categoriesOf, type Filter, listedMarkets, type Sort } from './market-rows.ts'
import { QuickStrip } from './quick-strip.tsx'

/** Number of rows shown at first, and number of rows added by each click. */
const ROWS = 100

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
      <EventCards />
      <section class="panel" aria-label="All markets">
        <Controls />
        <Listed />
      </section>
    </>
  )
}

/** Focuses the search field when the user presses `/`, as on most pages. */
function useSearchKey(search: { readonly current: HTMLInputElement | null }): void {
  useEffect(() => {
    const keyPressed = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.matches('input, select')
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      search.current?.focus()
    }
    addEventListener('keydown', keyPressed)
    return () => removeEventListener('keydown', keyPressed)
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
        columns={columnsOf({ ...filter.value, change })}
        keyOf={({ id }) => id}
        empty={
          all?.length === 0
            ? 'There are no markets yet.'
            : isWatched
              ? 'None of your watched markets matches the filters. Select the star before a market to watch it.'
              : 'No market matches the filters.'
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
