/**
 * A fault is a failure of something outside the process: a database, a chain, a price provider or a disk. Only adapters
 * throw faults (`chain`, `store`, `log`, price feeds). A fault is converted to a message before it reaches an actor.
 */
export class Fault extends Error {
  readonly code: string
  /** True if the same call may succeed later. */
  readonly retryable: boolean

  constructor(code: string, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Fault'
    this.code = code
    this.retryable = options.retryable
  }
}
