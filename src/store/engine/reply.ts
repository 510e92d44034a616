/** Answer to a query or a write, from the thread that has the database. Results and faults are plain data. */

import { Fault } from '#domain/fault.ts'

export type StoreReply =
  | { readonly ok: true; readonly answer: unknown }
  | {
      readonly ok: false
      readonly code: string
      readonly message: string
      readonly retryable: boolean
    }

/** Returns the answer, or throws the other thread's fault. */
export function answerOf(reply: StoreReply): unknown {
  if (reply.ok) return reply.answer
  throw new Fault(reply.code, reply.message, { retryable: reply.retryable })
}
