/** Splits a long list of orders into requests that the exchange accepts. */

import { BATCH_ORDERS_MAX, BODY_BYTES_MAX } from '#domain/limits.ts'
import type { OrderSubmission } from './order-submission.ts'

/** Bytes reserved for the text around the orders: `{"orders":[]}`. */
const BATCH_FRAME_BYTES = 64

/** Splits orders into requests of at most `BATCH_ORDERS_MAX` orders and `BODY_BYTES_MAX` bytes each. */
export function requestsOf(submissions: readonly OrderSubmission[]): OrderSubmission[][] {
  const requests: OrderSubmission[][] = []
  let bytes = 0
  for (const submission of submissions) {
    const length = JSON.stringify(submission).length + 1
    const last = requests.at(-1)
    if (
      last === undefined ||
      last.length === BATCH_ORDERS_MAX ||
      bytes + length > BODY_BYTES_MAX - BATCH_FRAME_BYTES
    ) {
      requests.push([submission])
      bytes = length
    } else {
      last.push(submission)
      bytes += length
    }
  }
  return requests
}
