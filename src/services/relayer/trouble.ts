/** Faults of work outside the actor, in two forms: as parts of messages, and as answers to clients. */

import { type Rejection, reject } from '#domain/rejection.ts'

/** The parts of a fault that can be sent to another thread. */
export type Trouble = {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
}

export function rejectionOf({ code, retryable }: Trouble): Rejection {
  if (code.startsWith('CHAIN_')) return reject('CHAIN_UNAVAILABLE')
  return reject(retryable ? 'OVERLOADED' : 'INTERNAL')
}

export function troubleOf(error: unknown): Trouble {
  const { code, message, retryable } = error as Partial<Trouble>
  return {
    code: typeof code === 'string' ? code : 'BUG',
    message: typeof message === 'string' ? message : String(error),
    retryable: retryable === true,
  }
}
