/**
 * The rules of a stablecoin permit that can be checked from the order and the permit alone. Two checks happen
 * elsewhere: the verify pool recovers the signer, and the accounts service checks the nonce.
 *
 * - Only a buy may have a permit, because a sell pays no stablecoin.
 * - The value must cover the stablecoin that the order needs (`needOf` in `funds.ts`). This includes a millionth for
 *   the rounding of each possible fill. Without this reserve, the last trade of the order could fail.
 * - The deadline must not be earlier than the last moment at which a trade of the order can settle. This moment is
 *   after the order's expiration, because a trade that is matched in the last second still needs time to reach the
 *   chain.
 */

import { needOf } from './funds.ts'
import { isPrice, isShares } from './money.ts'
import { BUY, type Order, type PermitSignature } from './order.ts'
import { type Rejection, reject } from './rejection.ts'

type Exposed = Pick<Order, 'side' | 'price' | 'size'>

/** Returns the minimum value of a permit for this order; zero for a sell. */
export function permitValueMin({ side, price, size }: Exposed): bigint {
  if (side !== BUY || !isPrice(price) || !isShares(size)) return 0n
  return BigInt(needOf({ side, price }, size))
}

/** Returns every flaw of the permit. `settleSec` is the maximum time from a match to its settlement, in seconds. */
export function permitFlaws(
  order: Exposed & Pick<Order, 'expiration'>,
  { value, deadline }: Pick<PermitSignature, 'value' | 'deadline'>,
  settleSec: number,
): Rejection[] {
  if (order.side !== BUY) {
    const detail = 'permitSignature must be absent in a sell, because a sell pays no stablecoin'
    return [reject('INVALID_PERMIT', 'permitSignature', detail)]
  }
  const flaws: Rejection[] = []
  const needed = permitValueMin(order)
  if (BigInt(value) < needed) {
    const why = 'this is the cost of the order, with a reserve for the rounding of each fill'
    const detail = `permitSignature.value must be at least ${needed} millionths of the stablecoin: ${why}`
    flaws.push(reject('INVALID_FIELD', 'permitSignature.value', detail))
  }
  const last = BigInt(order.expiration) + BigInt(settleSec)
  if (BigInt(deadline) < last) {
    const why =
      settleSec === 0 ? '' : ` plus ${settleSec} seconds for the settlement of its last trade`
    const detail = `permitSignature.deadline must be at least ${last} Unix seconds: the expiration of the order${why}`
    flaws.push(reject('INVALID_PERMIT', 'permitSignature.deadline', detail))
  }
  return flaws
}
