/**
 * Notes about unsettled trades, stored in the database. If settlement is killed, the next process reads the notes. So
 * each trade keeps its deadline, its number of retries, its wasted gas, and the record that the contract refused it in
 * a block. A trade's note is saved after such a refusal, with each retry, and after every 30 s in which the chain was
 * reachable. The note is deleted when the trade has ended.
 */

import type { TradeNote } from '#domain/trade.ts'
import type { PendingSettlement, SettlementContext, SettlementState } from './state.ts'
import { failure, tryBegin } from './steps.ts'

const NOTE_EVERY_MS = 30_000
/** Maximum number of notes in one write. */
const NOTES_MAX = 500

/** Applies the note of a trade that was read after a restart. */
export function applyNote(
  pending: PendingSettlement,
  note: TradeNote | undefined,
  { chain }: SettlementState,
): void {
  if (note === undefined) return
  const { reachableMs, retries, wastedGas, refusal } = note
  pending.reachableAtMs = chain.reachableMs - reachableMs
  pending.retries = retries
  pending.wastedGas = wastedGas
  pending.refusal = refusal
  pending.noted = note
}

export function saveNotes(state: SettlementState, context: SettlementContext): void {
  const notes = [...state.trades.values()]
    .filter((pending) => isDue(state, pending))
    .slice(0, NOTES_MAX)
    .map((pending) => noteOf(state, pending))
  const ended = [...state.notes.ended].slice(0, NOTES_MAX)
  if (notes.length + ended.length === 0 || !tryBegin(state, 'note', context.nowMs)) return
  context.pipe(
    state.ports.saveNotes({ notes, ended }),
    () => ({ type: 'Noted', message: { notes, ended } }),
    failure('note'),
  )
}

function noteOf({ chain }: SettlementState, pending: PendingSettlement): TradeNote {
  const { trade, retries, wastedGas, refusal, reachableAtMs } = pending
  return {
    tradeId: trade.tradeId,
    reachableMs: chain.reachableMs - reachableAtMs,
    retries,
    wastedGas,
    ...(refusal === undefined ? {} : { refusal: { fault: refusal.fault, reason: refusal.reason } }),
  }
}

function isDue({ chain }: SettlementState, pending: PendingSettlement): boolean {
  const { noted, refusal, retries, reachableAtMs, stage } = pending
  if (stage === 'ended') return false
  if ((refusal === undefined) !== (noted?.refusal === undefined)) return true
  if (retries !== (noted?.retries ?? 0)) return true
  return chain.reachableMs - reachableAtMs - (noted?.reachableMs ?? 0) >= NOTE_EVERY_MS
}
