/**
 * A fault is a failure of something outside: a database, a chain, a price provider, a disk. It is
 * thrown only by the adapters in `chain`, `store`, `log` and `feeds`, and turned into a message
 * before an actor sees it.
 */
export class Fault extends Error {
  readonly code: string
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean

  constructor(code: string, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Fault'
    this.code = code
    this.retryable = options.retryable
  }
}
