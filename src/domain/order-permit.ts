/**
 * What a stablecoin permit that travels with a buy must be good for: what the order needs (`funds.ts`),
 * with a unit for each fill that it can have. A permit that is short by these units would fail the last
 * trade of an order, so it is refused with the order.
 */

import { needOf } from './funds.ts'
import type { Uint256 } from './ids.ts'
import { isPrice, isShares } from './money.ts'
import { BUY, type Order } from './order.ts'
import { type Rejection, reject } from './rejection.ts'

type Exposed = Pick<Order, 'side' | 'price' | 'size'>

/** The least that a permit of this order may allow; zero for an order that pays nothing. */
export function permitValueMin({ side, price, size }: Exposed): bigint {
  if (side !== BUY || !isPrice(price) || !isShares(size)) return 0n
  return BigInt(needOf({ side, price }, size))
}

export function permitFlaw(order: Exposed, value: Uint256): Rejection | undefined {
  const needed = permitValueMin(order)
  if (BigInt(value) >= needed) return undefined
  const why = 'the cost of the order, and a unit for each fill that it can have'
  return reject(
    'INVALID_FIELD',
    'permitSignature.value',
    `permitSignature.value must be at least ${needed}: ${why}, because each is rounded up`,
  )
}
