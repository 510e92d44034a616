/** What comes back from the thread that has the database, for a query or a write: plain data, faults too. */

import { Fault } from '#domain/fault.ts'

export type StoreReply =
  | { readonly ok: true; readonly answer: unknown }
  | {
      readonly ok: false
      readonly code: string
      readonly message: string
      readonly retryable: boolean
    }

/** The answer; a fault over there is a fault here. */
export function answerOf(reply: StoreReply): unknown {
  if (reply.ok) return reply.answer
  throw new Fault(reply.code, reply.message, { retryable: reply.retryable })
}
