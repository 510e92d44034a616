/**
 * Trades that have ended, and those that may have. A database that is behind gives them as pending, also one that
 * failed here without a transaction, of which no chain and no journal knows: sent again, it could settle after its
 * market has given both quantities back. So what has ended is not taken up again for a minute; and what was matched
 * before the youngest trade that is forgotten by now, or before this life began, is taken up only once its market has
 * said what it knows of it. What was matched later goes out without that question.
 *
 *   12:00:00  a is matched, and fails at once; the database does not hear of it
 *   12:00:50  b is matched, and settles
 *   12:01:00  a is forgotten; all that was matched up to 12:00:00 is asked about from now on
 *   12:01:01  a is read, its market is asked, and says that it failed: not sent, and not taken up for a minute
 */

import { SETTLEMENT_ENDED_MAX } from '#domain/limits.ts'
import { tell } from './reports.ts'
import type { Ended, PendingSettlement, SettlementContext, SettlementState } from './state.ts'

/** How long an ended trade is not taken up again, whatever the database still says. */
const ENDED_KEPT_MS = 60_000
/** How far the clocks of two nodes may be apart: markets and the settlement before this one may have others. */
const CLOCKS_APART_MS = 60_000
/** How long all wait for the first answers of markets. */
const ANSWERS_MS = 500

/** A life begins: what was there before may have ended in another one. */
export function trustOnlyNew(state: SettlementState, nowMs: number): void {
  state.history.trustedFromMs = nowMs + CLOCKS_APART_MS
}

/** Its market is asked what it knows of it, and nothing is done for it before the answer. */
export function doubt(state: SettlementState, { trade }: PendingSettlement, nowMs: number): void {
  state.history.unverified.add(trade.tradeId)
  state.history.verifyingSinceMs = nowMs
  tell(state, trade.tradeId, { status: 'matched', txHash: '', reason: '', fault: 'none' })
}

/** Whether answers are about to come: then it is better to wait for them than to send trades one by one. */
export function isAsking({ history }: SettlementState, nowMs: number): boolean {
  const { unverified, verifyingSinceMs } = history
  return unverified.size > 0 && nowMs - verifyingSinceMs < ANSWERS_MS
}

/** The trade has ended and its market knows: nothing is left to do about it. */
export function forget(
  state: SettlementState,
  pending: PendingSettlement,
  { nowMs }: SettlementContext,
): void {
  const { tradeId, matchedAtMs } = pending.trade
  state.trades.delete(tradeId)
  state.history.ended.set(tradeId, { atMs: nowMs, matchedAtMs })
  dropEnded(state, () => state.history.ended.size > SETTLEMENT_ENDED_MAX)
}

export function forgetEnded(state: SettlementState, nowMs: number): void {
  dropEnded(state, ({ atMs }) => nowMs - atMs >= ENDED_KEPT_MS)
}

/** From the one that ended first, for as long as it is so. */
function dropEnded(state: SettlementState, isDue: (ended: Ended) => boolean): void {
  for (const [tradeId, ended] of state.history.ended) {
    if (!isDue(ended)) return
    state.history.ended.delete(tradeId)
    state.history.trustedFromMs = Math.max(state.history.trustedFromMs, ended.matchedAtMs + 1)
  }
}
