/**
 * Named writes of the actors for outside systems. From this table of types follow the caller (here), the write queue on
 * the store thread (`writes.ts`) and the functions. Each write is one transaction. Only plain data crosses the thread,
 * including faults.
 *
 * A caller may not receive the answer (a deadline, a restart), so every write must be repeatable: an upsert, or one
 * that recognises its earlier result.
 *
 * Callers load no database code.
 */

import type { DeadmanSwitch } from '#domain/deadman.ts'
import { Fault } from '#domain/fault.ts'
import type { OrderHash } from '#domain/ids.ts'
import type { QuickMarket, QuickTerms } from '#domain/quick-market.ts'
import type { RelayRecord } from '#domain/relay.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import type { ChainClaim, ChainProgress } from '../chain-index/cursor.ts'
import type { ChainRange, ChainWritten } from '../chain-index/index-range.ts'
import type { ChainRewind, ChainRewound } from '../chain-index/rewind-chain.ts'
import type { PositionSync, SyncedPosition } from '../chain-index/sync-position.ts'
import type { Lease } from '../engine/fence.ts'
import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { DelegatedOrder, DelegatedReserve } from './delegated-orders.ts'
import type { PriceBatch, recordMarks } from './prices.ts'
import type { storeBooks } from './public-books.ts'
import type { growTrees, publishCheckpoints, storeCosigned } from './public-log.ts'
import type { contestQuickMarket, noteQuickMarket, resolveQuickMarket } from './quick-markets.ts'
import type { OpenedRelay, RelayChange } from './relays.ts'
import type { SettlementNotes } from './settlement-notes.ts'

/** Maps a name to `{ takes: …; answers: … }`. */
type Writes = {
  claimChain: { takes: ChainClaim; answers: ChainProgress }
  indexRange: { takes: ChainRange; answers: ChainWritten }
  rewindChain: { takes: ChainRewind; answers: ChainRewound }
  syncPosition: { takes: PositionSync; answers: SyncedPosition }
  openRelay: { takes: OpenedRelay; answers: { record: RelayRecord; opened: boolean } }
  changeRelay: { takes: RelayChange; answers: boolean }
  /** False if a newer form of the row exists; it is kept. */
  saveTransaction: { takes: { row: TransactionRow }; answers: boolean }
  noteTrades: { takes: SettlementNotes; answers: number }
  recordPrices: { takes: PriceBatch; answers: number }
  recordMarks: { takes: Parameters<typeof recordMarks>[1]; answers: number }
  openQuickMarket: { takes: QuickTerms; answers: QuickMarket }
  resolveQuickMarket: { takes: Parameters<typeof resolveQuickMarket>[1]; answers: QuickMarket }
  contestQuickMarket: { takes: Parameters<typeof contestQuickMarket>[1]; answers: QuickMarket }
  growTrees: { takes: Parameters<typeof growTrees>[1]; answers: boolean }
  storeBooks: { takes: Parameters<typeof storeBooks>[1]; answers: boolean }
  publishCheckpoints: { takes: Parameters<typeof publishCheckpoints>[1]; answers: boolean }
  storeCosigned: { takes: Parameters<typeof storeCosigned>[1]; answers: boolean }
  noteQuickMarket: { takes: Parameters<typeof noteQuickMarket>[1]; answers: QuickMarket }
  setDeadman: { takes: DeadmanSwitch; answers: boolean }
  reserveDelegated: { takes: DelegatedOrder; answers: DelegatedReserve }
  releaseDelegated: { takes: { readonly orderHash: OrderHash }; answers: boolean }
  clearDeadman: { takes: { readonly keyId: string; readonly dueAtMs?: number }; answers: boolean }
}

export type WriteName = keyof Writes & string

/** Message to the write queue; with a lease if its role has one. */
export type WriteTask = { readonly write: string; readonly args: object; readonly lease?: Lease }

export type Takes<Name extends WriteName> = Writes[Name] extends {
  takes: infer Args extends object
}
  ? Args
  : never
export type Answers<Name extends WriteName> = Writes[Name] extends { answers: infer Is }
  ? Is
  : never

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
