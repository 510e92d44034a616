/** Where in the page one is: it follows from the part of the address after `#`. */

import { computed, signal } from '@preact/signals'
import { trimEnd } from '#domain/trim-end.ts'

type Route =
  | { readonly view: 'markets' }
  | { readonly view: 'market'; readonly marketId: string }
  | { readonly view: 'portfolio' }
  | { readonly view: 'nowhere' }

const hash = signal('')

export const route = computed(() => readRoute(hash.value))

export function readRoute(text: string): Route {
  const path = trimEnd(text.replace(/^#/, ''), '/')
  if (path === '') return { view: 'markets' }
  if (path === '/portfolio') return { view: 'portfolio' }
  const marketId = /^\/m\/(0x[0-9a-fA-F]{64})$/.exec(path)?.[1]
  return marketId === undefined
    ? { view: 'nowhere' }
    : { view: 'market', marketId: marketId.toLowerCase() }
}

export const MARKETS_LINK = '#/'
export const PORTFOLIO_LINK = '#/portfolio'

export function marketLink(marketId: string): string {
  return `#/m/${marketId}`
}

export function followAddress(): void {
  const read = () => {
    // The link past the header leads to a place in the page, not to another view.
    if (!location.hash.startsWith('#main')) hash.value = location.hash
  }
  addEventListener('hashchange', read)
  read()
}
