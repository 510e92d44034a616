/** An order as it is sent to the exchange. */

import type { Order } from '#domain/order.ts'

/** A stablecoin permit as the API takes it; `v` may be 27 or 28, 0 or 1. */
export type PermitInput = {
  readonly nonce: string | number
  /** A uint256 as decimal text. */
  readonly value: string
  readonly deadline: string | number
  readonly v: number
  readonly r: string
  readonly s: string
}

/** How the market is to place an order; nothing of it is signed. */
export type OrderOptions = {
  /** Only if it takes nothing: else `POST_ONLY_WOULD_MATCH`, with the price that it would have met. */
  readonly postOnly?: boolean
  /**
   * `GTC`, the default: what is not matched rests. `IOC`: it is cancelled, and `filled` of the answer
   * says how much was matched. `FOK`: all of it at once, or nothing. Else `ORDER_NOT_FILLED`.
   */
  readonly timeInForce?: 'GTC' | 'IOC' | 'FOK'
}

/** The body of `POST /api/v1/orders`. */
export type OrderSubmission = OrderOptions & {
  readonly order: Order
  readonly signature: string
  readonly permitSignature?: PermitInput
}
