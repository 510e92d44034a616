/**
 * Writes what the actors around outside systems ask it to write. It lives beside the projector,
 * because the store is the only writer of the database. One write after the other, in the order of
 * their arrival; the answer leaves once the database has it.
 */

import { WRITES_WAITING_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Behaviour, Context, Deferred } from '#runtime/actor.ts'
import type { WriteReply, WriteTask } from '#store/writes.ts'

export type ClerkProtocol = {
  Write: { takes: WriteTask; answers: WriteReply | Rejection }
  Written: { takes: { ticket: Deferred; reply: WriteReply }; answers: undefined }
}

type Asked = { readonly ticket: Deferred; readonly task: WriteTask }

export type ClerkState = {
  /** Resolves always: a fault is a reply. */
  readonly run: (task: WriteTask) => Promise<WriteReply>
  readonly waiting: Asked[]
  writing: boolean
}

export function newClerk(run: ClerkState['run']): ClerkState {
  return { run, waiting: [], writing: false }
}

export const clerk: Behaviour<ClerkState, ClerkProtocol> = {
  Write(state, task, context) {
    if (state.waiting.length >= WRITES_WAITING_MAX) return reject('OVERLOADED')
    const ticket = context.defer()
    state.waiting.push({ ticket, task })
    if (!state.writing) writeNext(state, context)
    return ticket
  },

  Written(state, { ticket, reply }, context) {
    context.answer(ticket, reply)
    writeNext(state, context)
    return undefined
  },
}

function writeNext(state: ClerkState, context: Context<ClerkProtocol, never>): void {
  const next = state.waiting.shift()
  state.writing = next !== undefined
  if (next === undefined) return
  const { ticket, task } = next
  const written = (reply: WriteReply) => ({
    type: 'Written' as const,
    message: { ticket, reply },
  })
  context.pipe(state.run(task), written, (error) =>
    written({ ok: false, code: 'STORE_FAILED', message: String(error), retryable: false }),
  )
}
