/**
 * The only table that maps a rejection to its HTTP status and message. No other file of the front knows the status of a
 * code.
 *
 * Clients can act on the status without a list of codes. Only 429 and 503 carry `Retry-After`: the same request can
 * succeed later. A 503 also means that nothing was done, unless its code is `OUTCOME_UNKNOWN`.
 */

import { ORDER_EXPIRATION_AHEAD_SEC_MIN } from '#domain/limits.ts'
import { PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import type { Rejection, RejectionCode } from '#domain/rejection.ts'

type ErrorRow = {
  /** Message of the answer if the rejection contains no more specific message. */
  readonly sentence: string
} & (
  | { readonly status: FinalStatus; readonly retryAfterSec?: never }
  | {
      readonly status: 429 | 503
      /** Sent as `Retry-After`. */
      readonly retryAfterSec: number
    }
)

type FinalStatus = 400 | 401 | 403 | 404 | 405 | 408 | 409 | 413 | 415 | 422 | 500

export const ERRORS: Readonly<Record<RejectionCode, ErrorRow>> = {
  INVALID_JSON: { status: 400, sentence: 'the request body is not valid JSON' },
  INVALID_FIELD: { status: 400, sentence: 'a field of the request is invalid' },
  MISSING_FIELD: { status: 400, sentence: 'a required field of the request is missing' },
  PRICE_OUT_OF_RANGE: {
    status: 400,
    sentence: `price must be between ${PRICE_MIN} and ${PRICE_MAX} millionths of a dollar`,
  },
  SIZE_NOT_POSITIVE: { status: 400, sentence: 'size must be greater than 0' },
  EXPIRATION_TOO_SOON: {
    status: 400,
    sentence: `expiration must be at least ${ORDER_EXPIRATION_AHEAD_SEC_MIN} seconds in the future`,
  },
  EXPIRATION_TOO_FAR: {
    status: 400,
    sentence: 'expiration is further in the future than this exchange allows',
  },
  INVALID_SIGNATURE: { status: 400, sentence: 'invalid signature' },
  INVALID_PERMIT: {
    status: 400,
    sentence:
      'the permit does not cover this order: sign a permit for a larger value, or approve an allowance',
  },
  UNAUTHORIZED_MISSING_HEADER: { status: 401, sentence: 'missing authorization header' },
  UNAUTHORIZED_INVALID_FORMAT: { status: 401, sentence: 'invalid authorization format' },
  UNAUTHORIZED_INVALID_TOKEN: { status: 401, sentence: 'invalid token format' },
  UNAUTHORIZED_TOKEN_EXPIRED: { status: 401, sentence: 'token expired' },
  UNAUTHORIZED_KEY_NOT_FOUND: { status: 401, sentence: 'API key not found' },
  UNAUTHORIZED_KEY_INACTIVE: { status: 401, sentence: 'API key is inactive' },
  UNAUTHORIZED_KEY_EXPIRED: { status: 401, sentence: 'API key has expired' },
  UNAUTHORIZED_INVALID_SIGNATURE: { status: 401, sentence: 'invalid signature' },
  UNAUTHORIZED_TOKEN_USED: {
    status: 401,
    sentence: 'the token was already used: make a new token for each request',
  },
  NOT_KEY_OWNER: {
    status: 403,
    sentence:
      'the bearer token belongs to another API key: use a token of the API key whose id is in the path',
  },
  NOT_ORDER_OWNER: {
    status: 403,
    sentence:
      'the order belongs to another wallet address: use a token of its trader or of a delegate',
  },
  DELEGATE_LIMIT: {
    status: 403,
    sentence: 'the order exceeds the limits that its trader set for the delegate',
  },
  INSUFFICIENT_FUNDS: {
    status: 422,
    sentence: 'the trader does not have enough funds for this order',
  },
  INSUFFICIENT_ALLOWANCE: {
    status: 422,
    sentence:
      'the settlement contract is not allowed to move the tokens that this order needs: approve it first',
  },
  NOTIONAL_TOO_SMALL: {
    status: 422,
    sentence: 'price × size is below the minimum order value of this exchange',
  },
  TOO_LATE: {
    status: 422,
    sentence: 'the order reached its market later than bookByMs, so it was not placed',
  },
  POST_ONLY_WOULD_MATCH: { status: 422, sentence: 'the post-only order would match on arrival' },
  ORDER_NOT_FILLED: {
    status: 422,
    sentence: 'the order could not be filled on arrival, so it was not placed',
  },
  NOT_FOUND: {
    status: 404,
    sentence: 'this path does not exist: see GET /openapi.json for all paths',
  },
  MARKET_NOT_FOUND: { status: 404, sentence: 'market not found' },
  ORDER_NOT_FOUND: { status: 404, sentence: 'order not found' },
  ASSET_NOT_FOUND: { status: 404, sentence: 'asset not found' },
  EVENT_NOT_FOUND: { status: 404, sentence: 'event not found' },
  METHOD_NOT_ALLOWED: {
    status: 405,
    sentence: 'this path does not support the method of the request: see the header Allow',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    sentence: 'the request body did not arrive in time: send the request again',
  },
  BODY_TOO_LARGE: { status: 413, sentence: 'the request body is too large' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    sentence:
      'the request body must be JSON in UTF-8, with the header Content-Type: application/json',
  },
  MARKET_CLOSED: { status: 409, sentence: 'the market is closed and accepts no more orders' },
  ORDER_CLOSED: { status: 409, sentence: 'the order is no longer open' },
  ORDER_NONCE_TOO_LOW: {
    status: 409,
    sentence:
      'the trader has withdrawn all orders with this nonce or a lower one on the chain: sign the order with a ' +
      'higher nonce',
  },
  RATE_LIMITED: {
    status: 429,
    sentence: 'too many requests: wait for the seconds in Retry-After',
    retryAfterSec: 1,
  },
  TRADER_PAUSED: {
    status: 429,
    sentence:
      "the trader cannot place orders for now, because a trade failed, or would have failed, by the trader's fault",
    // Seconds after which to retry, if the rejection itself contains no time.
    retryAfterSec: 10,
  },
  TOO_MANY_PENDING_TRADES: {
    status: 429,
    sentence: 'the trader has too many unsettled trades: retry when some of them have settled',
    retryAfterSec: 2,
  },
  GAS_BUDGET_SPENT: {
    status: 429,
    sentence: 'the trader has used up their daily gas budget for settling trades',
    // Seconds after which to retry, if the rejection itself contains no time.
    retryAfterSec: 60,
  },
  CANCEL_QUOTA_SPENT: {
    status: 429,
    sentence:
      'the trader has cancelled too many orders without a fill within an hour: retry later, cancels are still ' +
      'accepted',
    retryAfterSec: 60,
  },
  OVERLOADED: {
    status: 503,
    sentence: 'the exchange is busy: retry shortly',
    retryAfterSec: 1,
  },
  OUTCOME_UNKNOWN: {
    status: 503,
    sentence: 'the exchange may have executed the request: send the same request again, it is safe',
    retryAfterSec: 1,
  },
  SEQ_NOT_REACHED: {
    status: 503,
    sentence: 'this server has not reached minSeq yet: retry shortly',
    retryAfterSec: 1,
  },
  SETTLEMENT_BEHIND: {
    status: 503,
    sentence: 'settlement of trades is delayed: the market accepts only cancels for now',
    retryAfterSec: 5,
  },
  STORAGE_FULL: {
    status: 503,
    sentence: 'the disk of the exchange is almost full: the exchange accepts only cancels for now',
    retryAfterSec: 5,
  },
  PRICE_UNAVAILABLE: {
    status: 503,
    sentence: 'there is no price of this asset yet: retry shortly',
    retryAfterSec: 5,
  },
  CHAIN_UNAVAILABLE: {
    status: 503,
    sentence: 'the exchange cannot reach the chain: retry shortly',
    retryAfterSec: 5,
  },
  RELAYER_UNAVAILABLE: {
    status: 503,
    sentence: 'the relayer is unavailable: retry after the seconds in Retry-After',
    // A relayer without ether works again only after its operator has sent it ether. That takes longer than all retries
    // of the SDK, so the pause is long.
    retryAfterSec: 60,
  },
  PART_UNAVAILABLE: {
    status: 503,
    sentence: 'a part of the exchange that this request needs is unavailable: retry shortly',
    retryAfterSec: 5,
  },
  WOULD_REVERT: { status: 422, sentence: 'the transaction would fail on the chain' },
  TRADES_PENDING: {
    status: 409,
    sentence:
      'unsettled trades of the owner still need this approval or allowance: retry when they have settled',
  },
  ORDERS_OPEN: {
    status: 409,
    sentence:
      'open orders of the owner still need this approval or allowance: cancel these orders first',
  },
  ALLOWANCE_CHANGING: {
    status: 429,
    sentence:
      'the relayer is changing an allowance or approval that this order needs: retry when that transaction is ' +
      'confirmed',
    retryAfterSec: 2,
  },
  INTERNAL: {
    status: 500,
    sentence: 'internal error of the exchange: report the requestId to its operator',
  },
}

type ErrorBody = {
  readonly error: string
  readonly code: RejectionCode
  readonly field?: string
  readonly tradeIds?: readonly string[]
}

/** Returns the message for the client. The message of an internal error contains no details. */
export function sentenceOf(rejection: Rejection): string {
  if (rejection.rejected === 'INTERNAL') return ERRORS.INTERNAL.sentence
  if (rejection.detail !== undefined) return rejection.detail
  if (rejection.field !== undefined) {
    if (rejection.rejected === 'MISSING_FIELD') return `${rejection.field} is required`
    if (rejection.rejected === 'INVALID_FIELD') return `${rejection.field} is invalid`
  }
  return ERRORS[rejection.rejected].sentence
}

export function errorBody(rejection: Rejection, sentence: string): ErrorBody {
  return {
    error: sentence,
    code: rejection.rejected,
    ...(rejection.field === undefined ? {} : { field: rejection.field }),
    ...(rejection.tradeIds === undefined ? {} : { tradeIds: rejection.tradeIds }),
  }
}

/**
 * Returns an error body in the relayer's shape. If the request body is not a JSON object, the message is always
 * `Invalid request body`.
 */
export function relayerErrorBody(
  rejection: Rejection,
  sentence: string,
): { readonly success: false } & ErrorBody {
  const unread = rejection.rejected === 'INVALID_JSON' || isNoObject(rejection)
  return { success: false, ...errorBody(rejection, unread ? 'Invalid request body' : sentence) }
}

/**
 * Returns whether the request was rejected because its JSON body is not an object. Such a rejection has the code
 * `INVALID_FIELD` and no field name.
 */
function isNoObject({ rejected, field }: Rejection): boolean {
  return rejected === 'INVALID_FIELD' && field === undefined
}
