/** An order in the form of a request body. */

import type { Order } from '#domain/order.ts'
import type { NamedTimeInForce } from '#domain/time-in-force.ts'

/** A signed stablecoin permit in the API's form. The recovery id `v` may be 0, 1, 27 or 28. */
export type PermitInput = {
  readonly nonce: string | number
  /** A uint256 as decimal text. */
  readonly value: string
  readonly deadline: string | number
  readonly v: number
  readonly r: string
  readonly s: string
}

/** Options for placing an order; they are not signed. */
export type OrderOptions = {
  /**
   * True to place the order only if it would not match immediately. If it would match, the market rejects the order
   * with `POST_ONLY_WOULD_MATCH` and the price of the first match.
   */
  readonly postOnly?: boolean
  /**
   * `GTC`, the default: the unmatched remainder stays in the book. `IOC`: the remainder is cancelled, and the answer's
   * `filled` is the matched size. `FOK`: the whole order is filled immediately, or rejected with `ORDER_NOT_FILLED`.
   */
  readonly timeInForce?: NamedTimeInForce
  /** Unix milliseconds. If the market handles the order after this time, it rejects the order with `TOO_LATE`. */
  readonly bookByMs?: number
  /** Up to 32 printable characters, repeated in every answer and message about the order. The label is public. */
  readonly label?: string
  /** Name of a group of the trader's orders in a market: up to 32 letters, digits, _ and -. The name is public. */
  readonly group?: string
  /**
   * Limits how much of the `group` may fill within `windowMs`: at most `fillsMax` fills, and at most `sharesMax`
   * millionths of a share. If a fill exceeds a limit, the market cancels all remaining orders of the group in the same
   * step as that fill.
   */
  readonly protection?: {
    readonly windowMs: number
    readonly fillsMax?: number
    readonly sharesMax?: number
  }
  /**
   * Hash of an open order of the trader in the same market. The market cancels that order in the same step in which it
   * places the new order. If that order is not open, the market rejects the new order with `ORDER_CLOSED`.
   */
  readonly replaces?: string
  /** `always` places the order even if the order to be replaced is no longer open. */
  readonly replaceMode?: 'ifOpen' | 'always'
}

/** The body of `POST /api/v1/orders`. */
export type OrderSubmission = OrderOptions & {
  readonly order: Order
  readonly signature: string
  readonly permitSignature?: PermitInput
}

/** The unsigned parts of a submission. */
type Unsigned = OrderOptions & Pick<OrderSubmission, 'permitSignature'>

/** Separates the unsigned options of an intent from its signed fields. */
export function splitOptions<Intent extends Unsigned>(
  wanted: Intent,
): { readonly options: Unsigned; readonly intent: Omit<Intent, keyof Unsigned> } {
  const {
    postOnly,
    timeInForce,
    bookByMs,
    label,
    group,
    protection,
    replaces,
    replaceMode,
    permitSignature,
    ...intent
  } = wanted
  const tags = { label, group, protection }
  const placing = { postOnly, timeInForce, bookByMs, replaces, replaceMode, permitSignature }
  const given = Object.entries({ ...tags, ...placing }).filter(([, value]) => value !== undefined)
  return { options: Object.fromEntries(given), intent }
}
