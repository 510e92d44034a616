/** The two legs of a trade: one for its buyer, one for its seller. */

import { complementCost, costCeil, type Price, type Shares } from './money.ts'
import { BUY, NO, type Outcome, otherOutcome, SELL, type Side, YES } from './order.ts'
import type { FillKind } from './trade.ts'

/** One side of a trade. A buying side pays dollars; a selling side delivers shares of its outcome. */
type Leg = { readonly side: Side; readonly outcome: Outcome }

type Parted = { readonly kind?: FillKind; readonly outcome: Outcome }

/** Legs that buy, by outcome. */
const BUYS: readonly [Leg, Leg] = [
  { side: BUY, outcome: YES },
  { side: BUY, outcome: NO },
]
const SELLS: readonly [Leg, Leg] = [
  { side: SELL, outcome: YES },
  { side: SELL, outcome: NO },
]

/** Returns the leg of the recorded buyer. In a merge this is the taker, who sells the other outcome. */
export function buyerLeg({ kind, outcome }: Parted): Leg {
  return kind === 'merge' ? SELLS[otherOutcome(outcome)] : BUYS[outcome]
}

/** Returns the leg of the recorded seller. In a mint this is the taker, who buys the other outcome. */
export function sellerLeg({ kind, outcome }: Parted): Leg {
  return kind === 'mint' ? BUYS[otherOutcome(outcome)] : SELLS[outcome]
}

type Priced = Parted & { readonly price: Price; readonly size: Shares }

/** Returns the collateral that the recorded buyer pays. In a merge the recorded buyer receives this amount instead. */
export function buyerAmount({ kind, price, size }: Priced): number {
  return kind === 'merge' ? complementCost(price, size) : costCeil(price, size)
}

/** Returns the collateral that the recorded seller receives. In a mint the recorded seller pays this amount instead. */
export function sellerAmount({ kind, price, size }: Priced): number {
  return kind === 'mint' ? complementCost(price, size) : costCeil(price, size)
}
