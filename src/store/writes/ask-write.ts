/**
 * Calls the named writes. The table in `writes.ts` defines their names, parameters and answers. Writes, answers and
 * faults pass between threads as plain data. So a thread that calls these functions loads no database code.
 */

import { Fault } from '#domain/fault.ts'
import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { Answers, Takes, WriteName, WriteTask } from './writes.ts'

/** The part of the reference to the write queue (a thread) that this file needs. */
export type WriteQueueRef = {
  ask(type: 'Write', message: WriteTask, deadlineMs?: number): Promise<unknown>
}

/** Sends a write to the queue. Every error in the queue, or on the way to it, is thrown as a fault. */
export async function askWrite<Name extends WriteName>(
  writeQueue: WriteQueueRef,
  write: Name,
  args: Takes<Name>,
  deadlineMs?: number,
): Promise<Answers<Name>> {
  const reply = (await writeQueue.ask('Write', { write, args }, deadlineMs)) as StoreReply | object
  if (!('ok' in reply)) {
    throw new Fault('STORE_AWAY', `the store did not answer the write request "${write}"`, {
      retryable: true,
    })
  }
  return answerOf(reply) as Answers<Name>
}
