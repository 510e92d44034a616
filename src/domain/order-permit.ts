/**
 * What a stablecoin permit that travels with a buy must be good for. Each fill of an order costs
 * price × size rounded up, so that an order with many fills costs more than its price × size: up to one
 * unit (a millionth of a dollar) for each fill. A permit that is short by these units would fail the
 * last trade of an order, so it is refused with the order.
 *
 * An order meets at most `MAKERS_PER_ORDER_MAX` others when it arrives. One that rests may meet more, a
 * unit of shares at a time, but those who do that pay for nothing but the harm, and each of them must
 * be settled; the same number is taken for all of its fills. No fill costs more than its size, because
 * a share costs less than a dollar: so no order does.
 *
 * Worked example: BUY 10 shares at 0.42 needs 4.20 and 10,000 units: 4,210,000. BUY 3 units at any price
 * needs 3.
 */

import { MAKERS_PER_ORDER_MAX } from './limits.ts'
import { costCeil, isPrice, isShares } from './money.ts'
import { BUY, type Order } from './order.ts'
import { type Rejection, reject } from './rejection.ts'

type Exposed = Pick<Order, 'side' | 'price' | 'size'>

/** The least that a permit of this order may allow; zero for an order that pays nothing. */
export function permitValueMin({ side, price, size }: Exposed): bigint {
  if (side !== BUY || !isPrice(price) || !isShares(size)) return 0n
  const rounded = BigInt(costCeil(price, size)) + BigInt(MAKERS_PER_ORDER_MAX)
  return rounded < BigInt(size) ? rounded : BigInt(size)
}

/** `value` is a decimal uint256. */
export function permitFlaw(order: Exposed, value: string): Rejection | undefined {
  const needed = permitValueMin(order)
  if (BigInt(value) >= needed) return undefined
  const why = 'the cost of the order, and a unit for each fill that it can have'
  return reject(
    'INVALID_FIELD',
    'permitSignature.value',
    `permitSignature.value must be at least ${needed}: ${why}, because each is rounded up`,
  )
}
