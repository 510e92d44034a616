/** A star that adds a market to the watchlist, or removes it. */

import { toggleWatched, watched } from './state/watchlist.ts'

export function WatchButton(props: { readonly marketId: string; readonly question: string }) {
  const isWatched = watched.value.has(props.marketId)
  return (
    <button
      type="button"
      class="plain watch"
      aria-pressed={isWatched}
      aria-label={`Watch ${props.question}`}
      onClick={() => toggleWatched(props.marketId)}
    >
      {isWatched ? '★' : '☆'}
    </button>
  )
}
