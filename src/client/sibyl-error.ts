/**
 * The only error class of the SDK. Its `code` is the server's, whether the server or the SDK detected the error, so
 * callers can match on the code alone.
 */

import type { RejectionCode } from '#domain/rejection.ts'
import type { OrderSubmission } from './order-submission.ts'

/**
 * The server's codes, and those of the SDK: no answer, a timeout, an answer that is not Sibyl's, a request that the
 * caller aborted; or the SDK refused to sign because the contracts differ from the expected ones, the clocks differ too
 * much, or the bond is above the limit.
 */
export type ErrorCode =
  | RejectionCode
  | 'NETWORK'
  | 'TIMEOUT'
  | 'UNEXPECTED_ANSWER'
  | 'ABORTED'
  | 'EXCHANGE_CHANGED'
  | 'CLOCK_DIFFERS'
  | 'BOND_TOO_HIGH'
  | (string & {})

export type ErrorDetails = {
  readonly field?: string | undefined
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly attempts?: number
  readonly outcomeUnknown?: boolean
  readonly submission?: OrderSubmission
  readonly cause?: unknown
}

export class SibylError extends Error {
  readonly code: ErrorCode
  /** Path of the invalid field, as in the request: `order.price`. */
  readonly field: string | undefined
  /** HTTP status; undefined if nothing was sent or no answer arrived. */
  readonly status: number | undefined
  /** Id of the request in the server's log. */
  readonly requestId: string | undefined
  /** Number of attempts; 0 if the SDK rejected it without sending. */
  readonly attempts: number
  /** True if the request may have been executed although it failed; sending the same request again is safe. */
  readonly outcomeUnknown: boolean
  /**
   * The signed order of a failed `place`: submit it again if its outcome is unknown. Signing the intent again would
   * make another order.
   */
  readonly submission: OrderSubmission | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'SibylError'
    this.code = code
    this.field = details.field
    this.status = details.status
    this.requestId = details.requestId
    this.attempts = details.attempts ?? 0
    this.outcomeUnknown = details.outcomeUnknown ?? false
    this.submission = details.submission
  }
}

/** Returns whether the server was only too busy; a retry does not help with any other code. */
export function isPassing({ code }: SibylError): boolean {
  return code === 'OVERLOADED' || code === 'RATE_LIMITED'
}

/** Returns the error with the signed order that it is about. */
export function withSubmission(error: SibylError, submission: OrderSubmission): SibylError {
  const { field, status, requestId, attempts, outcomeUnknown, cause } = error
  const details = { field, status, requestId, attempts, outcomeUnknown, cause, submission }
  return new SibylError(error.code, error.message, details)
}
