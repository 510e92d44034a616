/**
 * Runs the named writes of the write queue, each by its function. To add a write, add a row to the table;
 * callers (`ask-write.ts`) derive the types of the write from this table. Each write is one transaction.
 *
 * A caller may not receive the answer (because of a deadline or a restart), so every write must be
 * repeatable: it is an upsert, or it recognises its earlier result.
 */

import { Fault } from '#domain/fault.ts'
import { claimChain } from '../chain-index/cursor.ts'
import { indexRange } from '../chain-index/index-range.ts'
import { rewindChain } from '../chain-index/rewind-chain.ts'
import { syncPosition } from '../chain-index/sync-position.ts'
import { type Database, transact } from '../engine/database.ts'
import type { Lease } from '../engine/fence.ts'
import type { StoreReply } from '../engine/reply.ts'
import { storeFault } from '../engine/store-fault.ts'
import { clearDeadman, clearFiredDeadman, setDeadman } from './deadman.ts'
import { releaseDelegated, reserveDelegated } from './delegated-orders.ts'
import { recordMarks, recordPrices } from './prices.ts'
import { storeBooks } from './public-books.ts'
import { growTrees, publishCheckpoints, storeCosigned } from './public-log.ts'
import {
  contestQuickMarket,
  noteQuickMarket,
  openQuickMarket,
  resolveQuickMarket,
} from './quick-markets.ts'
import { changeRelay, openRelay } from './relays.ts'
import { noteTrades } from './settlement-notes.ts'
import { saveTransaction } from './transactions.ts'

const WRITERS = {
  claimChain,
  indexRange,
  rewindChain,
  syncPosition,
  openRelay,
  changeRelay,
  saveTransaction,
  noteTrades,
  recordPrices,
  recordMarks,
  openQuickMarket,
  resolveQuickMarket,
  contestQuickMarket,
  noteQuickMarket,
  growTrees,
  publishCheckpoints,
  storeCosigned,
  storeBooks,
  setDeadman,
  clearDeadman,
  clearFiredDeadman,
  reserveDelegated,
  releaseDelegated,
}

export type WriteName = keyof typeof WRITERS
export type Takes<Name extends WriteName> = Parameters<(typeof WRITERS)[Name]>[1]
export type Answers<Name extends WriteName> = Awaited<ReturnType<(typeof WRITERS)[Name]>>

/**
 * Message to the write queue. With a `lease`, the write fails if another node has taken the lease of the sender's role.
 */
export type WriteTask = { readonly write: string; readonly args: object; readonly lease?: Lease }

/** Runs one task. Faults are returned and not thrown, because a thrown error does not reach another thread intact. */
async function runWrite(database: Database, task: WriteTask): Promise<StoreReply> {
  const { write, args, lease } = task
  const table: Record<string, (database: Database, args: never) => Promise<unknown>> = WRITERS
  try {
    const writer = table[write]
    if (writer === undefined) {
      throw new Fault('UNKNOWN_WRITE', `the store has no write named ${write}`, {
        retryable: false,
      })
    }
    const under = lease === undefined ? database : { ...database, fence: lease }
    return { ok: true, answer: await writer(under, args as never) }
  } catch (error) {
    const { code, message, retryable } = storeFault(error)
    return { ok: false, code, message, retryable }
  }
}

/**
 * Named writes that can share a commit: they are small, and all their reads are inside their transaction. On
 * SQLite, which has one connection, a read outside the transaction would deadlock.
 */
const SHARING: ReadonlySet<string> = new Set<WriteName>([
  'openRelay',
  'changeRelay',
  'saveTransaction',
  'reserveDelegated',
  'releaseDelegated',
  'setDeadman',
  'clearDeadman',
  'clearFiredDeadman',
])

export function sharesCommit({ write }: WriteTask): boolean {
  return SHARING.has(write)
}

/** Runs the tasks in order, in one commit. If a task fails, only the changes of this task are undone. */
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
    // It is unknown whether the commit succeeded. Return the fault for every task, because the callers can repeat each
    // write safely.
    const { code, message, retryable } = storeFault(error)
    return tasks.map(() => ({ ok: false, code, message, retryable }))
  }
}
