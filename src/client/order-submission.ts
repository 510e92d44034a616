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

/** The body of `POST /api/v1/orders`. */
export type OrderSubmission = {
  readonly order: Order
  readonly signature: string
  readonly permitSignature?: PermitInput
}
