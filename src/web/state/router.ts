/** Where in the page one is: it follows from the part of the address after `#`. */

import { computed, effect, signal } from '@preact/signals'
import { trimEnd } from '#domain/trim-end.ts'

type Route =
  | { readonly view: 'markets' }
  | { readonly view: 'market'; readonly marketId: string }
  | { readonly view: 'portfolio' }
  | { readonly view: 'nowhere' }

const hash = signal('')

export const route = computed(() => readRoute(hash.value))

export function readRoute(text: string): Route {
  const [hashPath = ''] = text.replace(/^#/, '').split('?', 1)
  const path = trimEnd(hashPath, '/')
  if (path === '') return { view: 'markets' }
  if (path === '/portfolio') return { view: 'portfolio' }
  const marketId = /^\/m\/(0x[0-9a-fA-F]{64})$/.exec(path)?.[1]
  return marketId === undefined
    ? { view: 'nowhere' }
    : { view: 'market', marketId: marketId.toLowerCase() }
}

/** What of the list is shown, as the address has it after `?`; kept while another view is shown. */
export const listQuery = signal('')

/** In place: each letter of a search is not worth a step back. */
export function setListQuery(query: string): void {
  history.replaceState(null, '', linkOf(query))
  hash.value = location.hash
}

function linkOf(query: string): string {
  return query === '' ? '#/' : `#/?${query}`
}

export const marketsLink = computed(() => linkOf(listQuery.value))
export const PORTFOLIO_LINK = '#/portfolio'

export function marketLink(marketId: string): string {
  return `#/m/${marketId}`
}

/** The server says in the document which market a link like `/m/will-it-rain-3fa9c1d2e4b5` is to. */
function followShareLink(): void {
  if (!location.pathname.startsWith('/m/')) return
  const marketId = document.querySelector('meta[name="sibyl-market"]')?.getAttribute('content')
  history.replaceState(null, '', `/${marketLink(marketId ?? 'unknown')}`)
}

export function followAddress(): void {
  const read = () => {
    // The link past the header leads to a place in the page, not to another view.
    if (!location.hash.startsWith('#main')) hash.value = location.hash
  }
  followShareLink()
  addEventListener('hashchange', read)
  read()
  effect(() => {
    if (route.value.view === 'markets') listQuery.value = hash.value.split('?')[1] ?? ''
  })
}
