/** Computes the user's own side of a trade. In a mint both sides buy; in a merge both sell. */

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

/** Returns outcome, price and role of the trade's buyer or seller, as the activity of a user shows them. */
export function ownLeg({ kind, outcome, price, takerSide }: Trade, isBuyer: boolean): OwnLeg {
  if (kind === undefined) {
    return { outcome, price, takerSide, role: isBuyer ? 'buyer' : 'seller' }
  }
  // A mint names its maker as the buyer; a merge names its maker as the seller. The trade has the maker's
  // outcome and price.
  const isMaker = isBuyer === (kind === 'mint')
  const role = kind === 'mint' ? 'buyer' : 'seller'
  return {
    role,
    outcome: isMaker ? outcome : 1 - outcome,
    price: isMaker ? price : DOLLAR - price,
    takerSide: isMaker ? 1 - SIDES[role] : SIDES[role],
  }
}
