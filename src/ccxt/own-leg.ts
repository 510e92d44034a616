/**
 * Computes one user's side of a trade. In a mint both users buy, and in a merge both sell: one user YES, the other NO.
 */

type Trade = {
  readonly kind?: 'mint' | 'merge'
  readonly outcome: number
  /** Price of the maker's outcome, in millionths. */
  readonly price: number
  /** 0 if the buyer was the taker, otherwise 1. */
  readonly takerSide: number
}

type OwnLeg = Required<Omit<Trade, 'kind'>> & { readonly role: 'buyer' | 'seller' }

const DOLLAR = 1_000_000
const SIDES = { buyer: 0, seller: 1 } as const

/** Returns the outcome, price and role of the trade's buyer or seller, as in the user's list of activity. */
export function ownLeg({ kind, outcome, price, takerSide }: Trade, isBuyer: boolean): OwnLeg {
  if (kind === undefined) {
    return { outcome, price, takerSide, role: isBuyer ? 'buyer' : 'seller' }
  }
  // The trade record has the maker's outcome and price. A mint names the maker as the buyer, and a merge names the
  // maker as the seller. The taker trades the other outcome.
  const isMaker = isBuyer === (kind === 'mint')
  const role = kind === 'mint' ? 'buyer' : 'seller'
  return {
    role,
    outcome: isMaker ? outcome : 1 - outcome,
    price: isMaker ? price : DOLLAR - price,
    takerSide: isMaker ? 1 - SIDES[role] : SIDES[role],
  }
}
