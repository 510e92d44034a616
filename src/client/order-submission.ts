/** An order in the form of a request. */

import type { Order } from '#domain/order.ts'
import type { NamedTimeInForce } from '#domain/time-in-force.ts'

/** A stablecoin permit in the API's form; `v` may be 27 or 28, 0 or 1. */
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
   * Places the order only if nothing matches; otherwise rejects it with `POST_ONLY_WOULD_MATCH` and the price that it
   * would match.
   */
  readonly postOnly?: boolean
  /**
   * `GTC`, the default: the unmatched rest stays in the book. `IOC`: the rest is cancelled, and `filled` of the answer
   * is the matched size. `FOK`: the whole order is filled immediately, or rejected with `ORDER_NOT_FILLED`.
   */
  readonly timeInForce?: NamedTimeInForce
  /** Unix milliseconds. An order that its market would handle after this time is refused with `TOO_LATE`. */
  readonly bookByMs?: number
  /** Up to 32 printable characters, repeated in every answer and message about the order. It is public. */
  readonly label?: string
  /** A name for some of the trader's orders in a market: letters, digits, _ and -, up to 32. It is public. */
  readonly group?: string
  /**
   * Protection of the `group`: when more than `fillsMax` fills, or more than `sharesMax` millionths of a share, happen
   * within `windowMs`, the market cancels the rest of the group in the same step.
   */
  readonly protection?: {
    readonly windowMs: number
    readonly fillsMax?: number
    readonly sharesMax?: number
  }
  /**
   * Hash of the trader's open order in the same market that is cancelled in the same step; `ORDER_CLOSED` if it is not
   * open.
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

/** Splits the unsigned parts from the rest of an intent. */
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
