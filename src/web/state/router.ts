/** The current view, from the part of the address after `#`. */

import { computed, effect, signal } from '@preact/signals'
import { trimEnd } from '#domain/trim-end.ts'

/** An order that a link prepares in the ticket. The order is not sent. */
export type TradeIntent = { readonly side: 'buy' | 'sell'; readonly outcome: 'YES' | 'NO' }

type Route =
  | { readonly view: 'markets' }
  | { readonly view: 'market'; readonly marketId: string; readonly intent?: TradeIntent }
  | { readonly view: 'event'; readonly slug: string }
  | { readonly view: 'portfolio' }
  | { readonly view: 'nowhere' }

const hash = signal('')

export const route = computed(() => readRoute(hash.value))

export function readRoute(text: string): Route {
  const [hashPath = '', query = ''] = text.replace(/^#/, '').split('?', 2)
  const path = trimEnd(hashPath, '/')
  if (path === '') return { view: 'markets' }
  if (path === '/portfolio') return { view: 'portfolio' }
  const slug = /^\/e\/([a-z0-9-]{1,64})$/.exec(path)?.[1]
  if (slug !== undefined) return { view: 'event', slug }
  const marketId = /^\/m\/(0x[0-9a-fA-F]{64})$/.exec(path)?.[1]
  if (marketId === undefined) return { view: 'nowhere' }
  const [, side, outcome] = /^(buy|sell)=(YES|NO)$/.exec(query) ?? []
  const intent = side === undefined ? {} : { intent: { side, outcome } as TradeIntent }
  return { view: 'market', marketId: marketId.toLowerCase(), ...intent }
}

/** Filter of the market list, from the text after `?` in the address. It is kept while another view is shown. */
export const listQuery = signal('')

/** Replaces the current history entry, so that typing a search does not add a history entry for each letter. */
export function setListQuery(query: string): void {
  history.replaceState(null, '', linkOf(query))
  hash.value = location.hash
}

function linkOf(query: string): string {
  return query === '' ? '#/' : `#/?${query}`
}

export const marketsLink = computed(() => linkOf(listQuery.value))
export const PORTFOLIO_LINK = '#/portfolio'

export function eventLink(slug: string): string {
  return `#/e/${slug}`
}

export function marketLink(marketId: string, intent?: TradeIntent): string {
  return `#/m/${marketId}${intent === undefined ? '' : `?${intent.side}=${intent.outcome}`}`
}

/**
 * Returns the order that the page's address asks to prepare, and removes it from the address. So a reload or a bookmark
 * does not prepare the order again.
 */
export function takeIntent(): TradeIntent | undefined {
  const at = route.peek()
  if (at.view !== 'market' || at.intent === undefined) return undefined
  history.replaceState(null, '', marketLink(at.marketId))
  hash.value = location.hash
  return at.intent
}

/**
 * If the page was opened by a share link, replaces the address by the page's own address of the market or event.
 * Examples of share links: `/m/will-it-rain-3fa9c1d2e4b5` and `/e/who-wins-…`. The server writes the market's id or the
 * event's slug into a meta element of the document.
 */
function followShareLink(): void {
  const kind = /^\/([em])\//.exec(location.pathname)?.[1]
  if (kind === undefined) return
  const name = kind === 'e' ? 'sibyl-event' : 'sibyl-market'
  const target = document.querySelector(`meta[name="${name}"]`)?.getAttribute('content')
  // If the document names no market or event, use a name that cannot exist: event slugs have no capital letters, and
  // market ids are hex. The page then reports that there is nothing at this address.
  const link = kind === 'e' ? eventLink(target ?? 'Unknown') : marketLink(target ?? 'unknown')
  history.replaceState(null, '', `/${link}`)
}

export function followAddress(): void {
  const read = () => {
    // The skip link leads to a place within the page, so the view stays the same.
    if (!location.hash.startsWith('#main')) hash.value = location.hash
  }
  followShareLink()
  addEventListener('hashchange', read)
  read()
  effect(() => {
    if (route.value.view === 'markets') listQuery.value = hash.value.split('?')[1] ?? ''
  })
}
