/**
 * A rejection is an expected answer. It is a value of a closed union and is never thrown. `http/errors.ts` maps it to
 * an HTTP status and a message.
 */

import type { TradeId } from './ids.ts'

export const REJECTION_CODES = [
  'INVALID_JSON',
  'INVALID_FIELD',
  'MISSING_FIELD',
  'PRICE_OUT_OF_RANGE',
  'SIZE_NOT_POSITIVE',
  'EXPIRATION_TOO_SOON',
  'EXPIRATION_TOO_FAR',
  'TOO_LATE',
  'INVALID_SIGNATURE',
  'INVALID_PERMIT',
  'UNAUTHORIZED_MISSING_HEADER',
  'UNAUTHORIZED_INVALID_FORMAT',
  'UNAUTHORIZED_INVALID_TOKEN',
  'UNAUTHORIZED_TOKEN_EXPIRED',
  'UNAUTHORIZED_KEY_NOT_FOUND',
  'UNAUTHORIZED_KEY_INACTIVE',
  'UNAUTHORIZED_KEY_EXPIRED',
  'UNAUTHORIZED_INVALID_SIGNATURE',
  'UNAUTHORIZED_TOKEN_USED',
  'NOT_ORDER_OWNER',
  'NOT_KEY_OWNER',
  'DELEGATE_LIMIT',
  'INSUFFICIENT_FUNDS',
  'INSUFFICIENT_ALLOWANCE',
  'NOTIONAL_TOO_SMALL',
  'POST_ONLY_WOULD_MATCH',
  'ORDER_NOT_FILLED',
  'NOT_FOUND',
  'MARKET_NOT_FOUND',
  'ORDER_NOT_FOUND',
  'ASSET_NOT_FOUND',
  'EVENT_NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'REQUEST_TIMEOUT',
  'BODY_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'MARKET_CLOSED',
  'ORDER_CLOSED',
  'ORDER_NONCE_TOO_LOW',
  'RATE_LIMITED',
  'TRADER_PAUSED',
  'TOO_MANY_PENDING_TRADES',
  'GAS_BUDGET_SPENT',
  'CANCEL_QUOTA_SPENT',
  'OVERLOADED',
  'OUTCOME_UNKNOWN',
  'SEQ_NOT_REACHED',
  'SETTLEMENT_BEHIND',
  'STORAGE_FULL',
  'CHAIN_UNAVAILABLE',
  'PRICE_UNAVAILABLE',
  'RELAYER_UNAVAILABLE',
  'PART_UNAVAILABLE',
  'WOULD_REVERT',
  'TRADES_PENDING',
  'ORDERS_OPEN',
  'ALLOWANCE_CHANGING',
  'INTERNAL',
] as const

export type RejectionCode = (typeof REJECTION_CODES)[number]

export type Rejection = {
  readonly rejected: RejectionCode
  /** The path of the field at fault, as the client wrote it: `order.price`. */
  readonly field?: string
  /** Message for the client that is more specific than the code's default message. */
  readonly detail?: string
  /** Trades that cause the rejection, oldest first. */
  readonly tradeIds?: readonly TradeId[]
  /** Seconds after which a retry may succeed. Overrides the default of the rejection's code. */
  readonly retryAfterSec?: number
}

export function reject(rejected: RejectionCode, field?: string, detail?: string): Rejection {
  return {
    rejected,
    ...(field === undefined ? {} : { field }),
    ...(detail === undefined ? {} : { detail }),
  }
}

/** Rejects a post-only order that would match immediately. `price` is the price of its first match. */
export function wouldMatch(price: number): Rejection {
  const detail = `the post-only order would match on arrival at the price ${price}, so it was not placed`
  return reject('POST_ONLY_WOULD_MATCH', 'postOnly', detail)
}

/** Rejects an order that must be filled immediately, but could be filled only in part or not at all. */
export function notFilled(filled: number, size: number): Rejection {
  const much =
    filled === 0 ? 'no part of the order' : `only ${filled} of ${size} millionths of a share`
  return reject(
    'ORDER_NOT_FILLED',
    'timeInForce',
    `${much} could be filled on arrival, so the order was not placed`,
  )
}

export function isRejection(answer: unknown): answer is Rejection {
  return typeof answer === 'object' && answer !== null && 'rejected' in answer
}
