/** A badge for markets in which orders of one outcome can match orders of the other outcome. */

import type { Market } from '#protocol/shapes/markets.ts'

export function MatchingBadge({ market }: { readonly market: Pick<Market, 'matching'> }) {
  if (market.matching !== 'complementary') return null
  return (
    <span
      class="badge"
      title="A buy of YES can match a buy of NO. A sale of YES can match a sale of NO."
    >
      Complementary
    </span>
  )
}
