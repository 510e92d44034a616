/**
 * The one error of the SDK. Its `code` is the server's, whether the server said it or the SDK found
 * it first, so that a caller matches on the code alone.
 */

import type { RejectionCode } from '#domain/rejection.ts'

export class SibylError extends Error {
  readonly code: RejectionCode | (string & {})
  /** The path of the field at fault, as in the request: `order.price`. */
  readonly field: string | undefined
  /** The HTTP status; none where nothing was sent. */
  readonly status: number | undefined

  constructor(
    code: RejectionCode | (string & {}),
    message: string,
    details: { field?: string; status?: number; cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'SibylError'
    this.code = code
    this.field = details.field
    this.status = details.status
  }
}
