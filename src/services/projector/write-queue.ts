/**
 * Writes for other services, in the store thread, which alone writes the database. Writes run one after another in the
 * order of arrival, and are answered once the database has them. Small writes that wait share a commit, because a
 * commit costs as much for many writes as for one.
 */

import { WRITES_TOGETHER_MAX, WRITES_WAITING_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import type { WriteRequests } from '#protocol/projector.ts'
import type { Behaviour, Context, Deferred } from '#runtime/actor.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import type { WriteTask } from '#store/writes/writes.ts'

export type WriteQueueProtocol = WriteRequests & {
  Written: {
    takes: { tickets: readonly Deferred[]; replies: readonly StoreReply[] }
    answers: undefined
  }
}

type Asked = { readonly ticket: Deferred; readonly task: WriteTask }

export type WriteQueueState = {
  /**
   * Runs several writes in one commit. Resolves with one reply per write; never rejects, because each fault
   * is returned as a reply.
   */
  readonly run: (tasks: readonly WriteTask[]) => Promise<readonly StoreReply[]>
  /** Returns whether a write can share its commit with others. */
  readonly shares: (task: WriteTask) => boolean
  readonly waiting: Asked[]
  writing: boolean
}

export function newWriteQueue(
  run: WriteQueueState['run'],
  shares: WriteQueueState['shares'],
): WriteQueueState {
  return { run, shares, waiting: [], writing: false }
}

export const writeQueue: Behaviour<WriteQueueState, WriteQueueProtocol> = {
  Write(state, task, context) {
    if (state.waiting.length >= WRITES_WAITING_MAX) return reject('OVERLOADED')
    const ticket = context.defer()
    state.waiting.push({ ticket, task })
    if (!state.writing) writeNext(state, context)
    return ticket
  },

  Written(state, { tickets, replies }, context) {
    for (const [at, ticket] of tickets.entries()) context.answer(ticket, replies[at])
    writeNext(state, context)
    return undefined
  },
}

function writeNext(state: WriteQueueState, context: Context<WriteQueueProtocol, never>): void {
  const asked = takeNext(state)
  state.writing = asked.length > 0
  if (asked.length === 0) return
  const tickets = asked.map(({ ticket }) => ticket)
  const written = (replies: readonly StoreReply[]) => ({
    type: 'Written' as const,
    message: { tickets, replies },
  })
  context.pipe(state.run(asked.map(({ task }) => task)), written, (error) => {
    const reply = { ok: false, code: 'STORE_FAILED', message: String(error), retryable: false }
    return written(asked.map(() => reply as StoreReply))
  })
}

/**
 * Removes the next write from the queue. If the queue starts with several writes that can share a commit, removes them
 * together.
 */
function takeNext({ waiting, shares }: WriteQueueState): Asked[] {
  let count = 0
  while (count < waiting.length && count < WRITES_TOGETHER_MAX) {
    const next = waiting[count]
    if (next === undefined || !shares(next.task)) break
    count++
  }
  return waiting.splice(0, Math.max(1, count))
}
