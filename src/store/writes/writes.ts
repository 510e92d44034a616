/**
 * The named writes of the actors around outside systems: one table of types from which the asking
 * side, the clerk on the store's thread and the functions all follow. Each write is one
 * transaction, and is done whole or not at all. Only plain data crosses the thread, faults too.
 *
 * Who asks may never hear the answer (a deadline, a restart), so a write has to be one that can be
 * asked again: an upsert, or one that finds what it did before.
 */

import { Fault } from '#domain/fault.ts'
import type { QuickMarket, QuickTerms } from '#domain/quick-market.ts'
import type { RelayRecord } from '#domain/relay.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { type ChainClaim, type ChainProgress, claimChain } from '../chain-index/cursor.ts'
import { type ChainRange, type ChainWritten, indexRange } from '../chain-index/index-range.ts'
import { type ChainRewind, type ChainRewound, rewindChain } from '../chain-index/rewind-chain.ts'
import {
  type PositionSync,
  type SyncedPosition,
  syncPosition,
} from '../chain-index/sync-position.ts'
import { type Database, transact } from '../engine/database.ts'
import type { Lease } from '../engine/fence.ts'
import { storeFault } from '../engine/store-fault.ts'
import { type PriceBatch, recordMarks, recordPrices } from './prices.ts'
import { noteQuickMarket, openQuickMarket, resolveQuickMarket } from './quick-markets.ts'
import { changeRelay, type OpenedRelay, openRelay, type RelayChange } from './relays.ts'
import { saveTransaction } from './transactions.ts'

/** Name → `{ takes: …; answers: … }`. */
type Writes = {
  claimChain: { takes: ChainClaim; answers: ChainProgress }
  indexRange: { takes: ChainRange; answers: ChainWritten }
  rewindChain: { takes: ChainRewind; answers: ChainRewound }
  syncPosition: { takes: PositionSync; answers: SyncedPosition }
  openRelay: { takes: OpenedRelay; answers: { record: RelayRecord; opened: boolean } }
  changeRelay: { takes: RelayChange; answers: boolean }
  /** False when a newer form of the row was there, which was left as it is. */
  saveTransaction: { takes: { row: TransactionRow }; answers: boolean }
  recordPrices: { takes: PriceBatch; answers: undefined }
  recordMarks: { takes: Parameters<typeof recordMarks>[1]; answers: undefined }
  openQuickMarket: { takes: QuickTerms; answers: QuickMarket }
  resolveQuickMarket: { takes: Parameters<typeof resolveQuickMarket>[1]; answers: QuickMarket }
  noteQuickMarket: { takes: Parameters<typeof noteQuickMarket>[1]; answers: QuickMarket }
}

type WriteName = keyof Writes & string

/** What travels to the clerk; with the lease that it is written under, where its role has one. */
export type WriteTask = { readonly write: string; readonly args: object; readonly lease?: Lease }

/** What comes back from it. */
export type WriteReply =
  | { readonly ok: true; readonly answer: unknown }
  | {
      readonly ok: false
      readonly code: string
      readonly message: string
      readonly retryable: boolean
    }

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
  noteQuickMarket,
}

type Takes<Name extends WriteName> = Writes[Name] extends { takes: infer Args extends object }
  ? Args
  : never
type Answers<Name extends WriteName> = Writes[Name] extends { answers: infer Is } ? Is : never

/** Does one task; it never throws for a fault, since no error crosses a thread whole. */
async function runWrite(database: Database, task: WriteTask): Promise<WriteReply> {
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
): Promise<WriteReply[]> {
  const [first] = tasks
  if (first !== undefined && tasks.length === 1) return [await runWrite(database, first)]
  try {
    return await transact(database, async (within) => {
      const replies: WriteReply[] = []
      for (const task of tasks) replies.push(await runWrite({ ...database, within }, task))
      return replies
    })
  } catch (error) {
    // It is not known whether they were committed; each can be asked for again.
    const { code, message, retryable } = storeFault(error)
    return tasks.map(() => ({ ok: false, code, message, retryable }))
  }
}

/** A reference to the clerk, as far as asking for writes goes. */
export type ClerkRef = {
  ask(type: 'Write', message: WriteTask, deadlineMs?: number): Promise<unknown>
}

/** Asks the clerk; whatever went wrong over there, or on the way, is a fault here. */
export async function askWrite<Name extends WriteName>(
  clerk: ClerkRef,
  write: Name,
  args: Takes<Name>,
  deadlineMs?: number,
): Promise<Answers<Name>> {
  const reply = (await clerk.ask('Write', { write, args }, deadlineMs)) as WriteReply | object
  if (!('ok' in reply)) {
    throw new Fault('STORE_AWAY', `the store did not answer ${write}`, { retryable: true })
  }
  if (reply.ok) return reply.answer as Answers<Name>
  throw new Fault(reply.code, reply.message, { retryable: reply.retryable })
}
