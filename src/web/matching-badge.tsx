/** A badge for markets in which orders of one outcome can match orders of the other outcome. */

import type { Market } from '#protocol/shapes/markets.ts'

export function MatchingBadge({ market }: { readonly market: Pick<Market, 'matching'> }) {
  if (market.matching !== 'complementary') return null
  return (
    <span
      class="badge"
      title="A buyer of YES also matches buyers of NO, and a seller of YES sellers of NO"
    >
      Complementary
    </span>
  )
}
