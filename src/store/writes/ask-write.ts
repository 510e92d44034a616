/**
 * The named writes of the actors around outside systems: one table of types from which the asking
 * side (here), the write queue on the store's thread (`writes.ts`) and the functions all follow. Each write is one
 * transaction, and is done whole or not at all. Only plain data crosses the thread, faults too.
 *
 * Who asks may never hear the answer (a deadline, a restart), so a write has to be one that can be
 * asked again: an upsert, or one that finds what it did before.
 *
 * Who asks loads nothing of the database.
 */

import { Fault } from '#domain/fault.ts'
import type { QuickMarket, QuickTerms } from '#domain/quick-market.ts'
import type { RelayRecord } from '#domain/relay.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import type { ChainClaim, ChainProgress } from '../chain-index/cursor.ts'
import type { ChainRange, ChainWritten } from '../chain-index/index-range.ts'
import type { ChainRewind, ChainRewound } from '../chain-index/rewind-chain.ts'
import type { PositionSync, SyncedPosition } from '../chain-index/sync-position.ts'
import type { Lease } from '../engine/fence.ts'
import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { PriceBatch, recordMarks } from './prices.ts'
import type { contestQuickMarket, noteQuickMarket, resolveQuickMarket } from './quick-markets.ts'
import type { OpenedRelay, RelayChange } from './relays.ts'

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
  recordPrices: { takes: PriceBatch; answers: number }
  recordMarks: { takes: Parameters<typeof recordMarks>[1]; answers: number }
  openQuickMarket: { takes: QuickTerms; answers: QuickMarket }
  resolveQuickMarket: { takes: Parameters<typeof resolveQuickMarket>[1]; answers: QuickMarket }
  contestQuickMarket: { takes: Parameters<typeof contestQuickMarket>[1]; answers: QuickMarket }
  noteQuickMarket: { takes: Parameters<typeof noteQuickMarket>[1]; answers: QuickMarket }
}

export type WriteName = keyof Writes & string

/** What travels to the write queue; with the lease that it is written under, where its role has one. */
export type WriteTask = { readonly write: string; readonly args: object; readonly lease?: Lease }

export type Takes<Name extends WriteName> = Writes[Name] extends {
  takes: infer Args extends object
}
  ? Args
  : never
export type Answers<Name extends WriteName> = Writes[Name] extends { answers: infer Is }
  ? Is
  : never

/** A reference to the write queue, as far as asking for writes goes. */
export type WriteQueueRef = {
  ask(type: 'Write', message: WriteTask, deadlineMs?: number): Promise<unknown>
}

/** Asks the write queue; whatever went wrong over there, or on the way, is a fault here. */
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
