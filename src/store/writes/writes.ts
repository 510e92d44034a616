/** The named writes as the write queue does them, each by the function that it is. */

import { Fault } from '#domain/fault.ts'
import { claimChain } from '../chain-index/cursor.ts'
import { indexRange } from '../chain-index/index-range.ts'
import { rewindChain } from '../chain-index/rewind-chain.ts'
import { syncPosition } from '../chain-index/sync-position.ts'
import { type Database, transact } from '../engine/database.ts'
import type { StoreReply } from '../engine/reply.ts'
import { storeFault } from '../engine/store-fault.ts'
import type { Answers, Takes, WriteName, WriteTask } from './ask-write.ts'
import { recordMarks, recordPrices } from './prices.ts'
import {
  contestQuickMarket,
  noteQuickMarket,
  openQuickMarket,
  resolveQuickMarket,
} from './quick-markets.ts'
import { changeRelay, openRelay } from './relays.ts'
import { saveTransaction } from './transactions.ts'

const writers: {
  readonly [Name in WriteName]: (database: Database, args: Takes<Name>) => Promise<Answers<Name>>
} = {
  claimChain,
  indexRange,
  rewindChain,
  syncPosition,
  openRelay,
  changeRelay,
  saveTransaction,
  recordPrices,
  recordMarks,
  openQuickMarket,
  resolveQuickMarket,
  contestQuickMarket,
  noteQuickMarket,
}

/** Does one task; it never throws for a fault, since no error crosses a thread whole. */
async function runWrite(database: Database, task: WriteTask): Promise<StoreReply> {
  const { write, args, lease } = task
  const table: Record<string, (database: Database, args: never) => Promise<unknown>> = writers
  try {
    const writer = table[write]
    if (writer === undefined) {
      throw new Fault('UNKNOWN_WRITE', `there is no write ${write}`, { retryable: false })
    }
    const under = lease === undefined ? database : { ...database, fence: lease }
    return { ok: true, answer: await writer(under, args as never) }
  } catch (error) {
    const { code, message, retryable } = storeFault(error)
    return { ok: false, code, message, retryable }
  }
}

/**
 * Writes that can share a commit: small, and all they read is read inside their transaction. On
 * SQLite, which has one connection, anything else would wait for itself.
 */
const SHARING: ReadonlySet<string> = new Set<WriteName>([
  'openRelay',
  'changeRelay',
  'saveTransaction',
])

export function sharesCommit({ write }: WriteTask): boolean {
  return SHARING.has(write)
}

/** Does the tasks in their order, in one commit. One that fails is undone alone. */
export async function runWrites(
  database: Database,
  tasks: readonly WriteTask[],
): Promise<StoreReply[]> {
  const [first] = tasks
  if (first !== undefined && tasks.length === 1) return [await runWrite(database, first)]
  try {
    return await transact(database, async (within) => {
      const replies: StoreReply[] = []
      for (const task of tasks) replies.push(await runWrite({ ...database, within }, task))
      return replies
    })
  } catch (error) {
    // It is not known whether they were committed; each can be asked for again.
    const { code, message, retryable } = storeFault(error)
    return tasks.map(() => ({ ok: false, code, message, retryable }))
  }
}
