/**
 * The only error class of the SDK. An error has the same `code` whether the server or the SDK detects it, so callers
 * can match on the code alone.
 */

import type { RejectionCode } from '#domain/rejection.ts'
import type { OrderSubmission } from './order-submission.ts'

/**
 * The server's codes, and the SDK's own codes. The SDK reports a failed connection (`NETWORK`), a timeout, an answer
 * that is not Sibyl's (`UNEXPECTED_ANSWER`), and a request that the caller aborted. The SDK refuses to sign if the
 * exchange's contracts are not the expected ones, the clocks differ too much, or the bond is too high.
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
  /** Number of attempts; 0 if the SDK rejected the request without sending it. */
  readonly attempts: number
  /** True if the request failed but may have been executed; sending the same request again is safe. */
  readonly outcomeUnknown: boolean
  /**
   * The signed order of a failed `place`. If its outcome is unknown, submit this order again; signing the intent again
   * would make another order.
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

/**
 * Returns whether the server was overloaded or the client was over its rate limit. In both cases, the same request may
 * succeed after a pause.
 */
export function isPassing({ code }: SibylError): boolean {
  return code === 'OVERLOADED' || code === 'RATE_LIMITED'
}

/** Returns a copy of the error that includes the signed order. */
export function withSubmission(error: SibylError, submission: OrderSubmission): SibylError {
  const { field, status, requestId, attempts, outcomeUnknown, cause } = error
  const details = { field, status, requestId, attempts, outcomeUnknown, cause, submission }
  return new SibylError(error.code, error.message, details)
}
