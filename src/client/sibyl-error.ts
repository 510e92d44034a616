/**
 * The one error of the SDK. Its `code` is the server's, whether the server said it or the SDK found
 * it first, so that a caller matches on the code alone.
 */

import type { RejectionCode } from '#domain/rejection.ts'
import type { OrderSubmission } from './order-submission.ts'

/**
 * The server's codes, and those of the SDK: no answer, a timeout, an answer that is not Sibyl's, a request that the
 * caller aborted; or the SDK refused to sign because the contracts differ from the expected ones, the clocks differ
 * too much, or the bond is above the limit.
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
  /** The path of the field at fault, as in the request: `order.price`. */
  readonly field: string | undefined
  /** The HTTP status; none where nothing was sent or nothing came back. */
  readonly status: number | undefined
  /** What the server calls this request in its log. */
  readonly requestId: string | undefined
  /** How often the request was sent; 0 where the SDK itself refused. */
  readonly attempts: number
  /** Whether it may have been carried out although it failed; sending the same again is safe. */
  readonly outcomeUnknown: boolean
  /**
   * The signed order of a `place` that failed: submit it again when its outcome is unknown.
   * Signing the intent anew would make another order.
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

/** Too busy now may be different soon; anything else will not change by asking again. */
export function isPassing({ code }: SibylError): boolean {
  return code === 'OVERLOADED' || code === 'RATE_LIMITED'
}
