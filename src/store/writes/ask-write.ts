/**
 * Callers of the named writes, whose names, parameters and answers follow from the table in `writes.ts`. Only plain
 * data crosses the thread, including faults. Callers load no database code.
 */

import { Fault } from '#domain/fault.ts'
import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { Answers, Takes, WriteName, WriteTask } from './writes.ts'

/** The part of a reference to the write queue that writes need. */
export type WriteQueueRef = {
  ask(type: 'Write', message: WriteTask, deadlineMs?: number): Promise<unknown>
}

/** Sends a write to the queue. Every error there, or on the way, is thrown as a fault. */
export async function askWrite<Name extends WriteName>(
  writeQueue: WriteQueueRef,
  write: Name,
  args: Takes<Name>,
  deadlineMs?: number,
): Promise<Answers<Name>> {
  const reply = (await writeQueue.ask('Write', { write, args }, deadlineMs)) as StoreReply | object
  if (!('ok' in reply)) {
    throw new Fault('STORE_AWAY', `the store did not answer ${write}`, { retryable: true })
  }
  return answerOf(reply) as Answers<Name>
}
