/** The two legs of a trade: what its buyer and its seller do. */

import { BUY, NO, type Outcome, SELL, type Side, YES } from './order.ts'
import type { FillKind } from './trade.ts'

/** One side buys or sells shares of an outcome. A buy takes dollars from it, a sell shares. */
type Leg = { readonly side: Side; readonly outcome: Outcome }

type Parted = { readonly kind?: FillKind; readonly outcome: Outcome }

/** By outcome. */
const BUYS: readonly [Leg, Leg] = [
  { side: BUY, outcome: YES },
  { side: BUY, outcome: NO },
]
const SELLS: readonly [Leg, Leg] = [
  { side: SELL, outcome: YES },
  { side: SELL, outcome: NO },
]

/** Returns the leg of the buyer; in a mint or merge, the side of YES. */
export function buyerLeg({ kind, outcome }: Parted): Leg {
  return kind === 'merge' ? SELLS[YES] : BUYS[outcome]
}

/** Returns the leg of the seller; in a mint or merge, the side of NO. */
export function sellerLeg({ kind, outcome }: Parted): Leg {
  if (kind === undefined) return SELLS[outcome]
  return kind === 'mint' ? BUYS[NO] : SELLS[NO]
}
