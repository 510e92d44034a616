/** Converts errors of the SDK to those of ccxt, with the SDK's error as `cause`. */

import {
  AuthenticationError,
  BadRequest,
  BadSymbol,
  type BaseError,
  ExchangeClosedByUser,
  ExchangeError,
  ExchangeNotAvailable,
  InsufficientFunds,
  InvalidNonce,
  InvalidOrder,
  MarketClosed,
  NetworkError,
  NotSupported,
  OperationFailed,
  OperationRejected,
  OrderImmediatelyFillable,
  OrderNotFillable,
  OrderNotFound,
  PermissionDenied,
  RateLimitExceeded,
  RequestTimeout,
} from 'ccxt'
import { SibylError } from '#client/sibyl-error.ts'

type ErrorClass = new (message: string) => BaseError

export const CLASSES: Readonly<Record<string, ErrorClass>> = {
  ABORTED: ExchangeClosedByUser,
  NETWORK: NetworkError,
  TIMEOUT: RequestTimeout,
  // After this error, the order may be in the book. Users of ccxt treat a timeout as an unknown outcome.
  OUTCOME_UNKNOWN: RequestTimeout,
  REQUEST_TIMEOUT: RequestTimeout,
  UNEXPECTED_ANSWER: ExchangeError,
  EXCHANGE_CHANGED: AuthenticationError,
  CLOCK_DIFFERS: InvalidNonce,
  INVALID_SIGNATURE: AuthenticationError,
  NOT_ORDER_OWNER: PermissionDenied,
  NOT_KEY_OWNER: PermissionDenied,
  DELEGATE_LIMIT: PermissionDenied,
  INSUFFICIENT_FUNDS: InsufficientFunds,
  INSUFFICIENT_ALLOWANCE: InsufficientFunds,
  MARKET_NOT_FOUND: BadSymbol,
  MARKET_CLOSED: MarketClosed,
  ORDER_NOT_FOUND: OrderNotFound,
  ORDER_CLOSED: OrderNotFound,
  ORDER_NOT_FILLED: OrderNotFillable,
  ORDER_NONCE_TOO_LOW: InvalidNonce,
  POST_ONLY_WOULD_MATCH: OrderImmediatelyFillable,
  PRICE_OUT_OF_RANGE: InvalidOrder,
  SIZE_NOT_POSITIVE: InvalidOrder,
  NOTIONAL_TOO_SMALL: InvalidOrder,
  EXPIRATION_TOO_SOON: InvalidOrder,
  EXPIRATION_TOO_FAR: InvalidOrder,
  INVALID_PERMIT: InvalidOrder,
  TOO_LATE: OperationRejected,
  TRADER_PAUSED: OperationRejected,
  TOO_MANY_PENDING_TRADES: OperationRejected,
  GAS_BUDGET_SPENT: OperationRejected,
  CANCEL_QUOTA_SPENT: RateLimitExceeded,
  RATE_LIMITED: RateLimitExceeded,
  OVERLOADED: ExchangeNotAvailable,
  SETTLEMENT_BEHIND: ExchangeNotAvailable,
  STORAGE_FULL: ExchangeNotAvailable,
  CHAIN_UNAVAILABLE: ExchangeNotAvailable,
  PRICE_UNAVAILABLE: ExchangeNotAvailable,
  RELAYER_UNAVAILABLE: ExchangeNotAvailable,
  PART_UNAVAILABLE: ExchangeNotAvailable,
  SEQ_NOT_REACHED: OperationFailed,
  ALLOWANCE_CHANGING: OperationRejected,
  TRADES_PENDING: OperationRejected,
  ORDERS_OPEN: OperationRejected,
  WOULD_REVERT: OperationRejected,
  NOT_FOUND: NotSupported,
  METHOD_NOT_ALLOWED: NotSupported,
  ASSET_NOT_FOUND: BadSymbol,
  EVENT_NOT_FOUND: BadRequest,
  INVALID_JSON: BadRequest,
  BODY_TOO_LARGE: BadRequest,
  UNSUPPORTED_MEDIA_TYPE: BadRequest,
  INTERNAL: ExchangeError,
}

/** Returns the error of ccxt for an error of the SDK, and any other error unchanged. */
export function asCcxtError(id: string, error: unknown): unknown {
  if (!(error instanceof SibylError)) return error
  const { code, field } = error
  const found =
    CLASSES[code] ??
    (code.startsWith('UNAUTHORIZED_') ? AuthenticationError : undefined) ??
    (field?.startsWith('order') ? InvalidOrder : BadRequest)
  const failure = new found(`${id} ${code}: ${error.message}`)
  failure.cause = error
  return failure
}
