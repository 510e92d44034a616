/** Watched markets, stored in this browser. */

import { signal } from '@preact/signals'

const PLACE = 'sibyl watchlist'
/** Maximum number of watched markets. If there are more, the oldest are dropped. */
const WATCHED_MAX = 200

/** The newest first. */
export const watched = signal<ReadonlySet<string>>(new Set())

/** Parses the stored watchlist. The text may be from another version or invalid, so invalid entries are dropped. */
export function parseWatchlist(text: string | null): readonly string[] {
  let kept: unknown
  try {
    kept = JSON.parse(text ?? '[]')
  } catch {
    return []
  }
  if (!Array.isArray(kept)) return []
  const ids = kept.filter((id) => typeof id === 'string' && /^0x[0-9a-f]{64}$/.test(id))
  return ids.slice(0, WATCHED_MAX)
}

/**
 * Returns the list without the market if it contains the market. Otherwise returns the list with the market added at
 * the front.
 */
export function toggled(before: Iterable<string>, marketId: string): readonly string[] {
  const ids = [...before]
  if (ids.includes(marketId)) return ids.filter((id) => id !== marketId)
  return [marketId, ...ids].slice(0, WATCHED_MAX)
}

export function toggleWatched(marketId: string): void {
  const ids = toggled(watched.value, marketId)
  watched.value = new Set(ids)
  localStorage.setItem(PLACE, JSON.stringify(ids))
}

export function startWatchlist(): void {
  const read = () => {
    watched.value = new Set(parseWatchlist(localStorage.getItem(PLACE)))
  }
  read()
  // Called when another tab of the browser has changed the list.
  addEventListener('storage', ({ key }) => {
    if (key === PLACE) read()
  })
}
