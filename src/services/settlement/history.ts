/**
 * Protects ended trades from a database that lags, because it may still return them as pending. If a trade
 * failed without a transaction, neither the chain nor the journal knows about the failure. If such a trade
 * were sent again, it could settle although its market has already returned both quantities. So settlement
 * ignores an ended trade for a minute. Trades that may have ended and been forgotten are first verified with
 * their market. These are trades matched up to `CLOCKS_APART_MS` after the start of this process, and trades
 * matched before a forgotten one, or at the same time. Later trades need no verification.
 *
 *     12:00:00  a matches and fails at once; the database does not learn of it
 *     12:00:50  b matches and settles
 *     12:01:00  a is forgotten; from now on, trades matched up to 12:00:00 are verified
 *     12:01:01  a is read, its market answers that a failed: a is not sent, and is ignored for another minute
 */

import { SETTLEMENT_ENDED_MAX } from '#domain/limits.ts'
import { addReport } from './reports.ts'
import type { Ended, PendingSettlement, SettlementContext, SettlementState } from './state.ts'

/** Time for which an ended trade is ignored, even if the database still returns it as pending. */
const ENDED_KEPT_MS = 60_000
/**
 * Maximum difference between the clocks of two nodes. The difference matters because the markets, and the previous
 * settlement thread, may run on other nodes.
 */
const CLOCKS_APART_MS = 60_000
/** Maximum time for which all trades wait for the markets' first answers, so that verified trades share a batch. */
const ANSWERS_MS = 500

/**
 * Requires that trades matched before `nowMs`, or up to `CLOCKS_APART_MS` later, are verified with their markets before
 * they are sent. Called after a restart.
 */
export function trustOnlyNew(state: SettlementState, nowMs: number): void {
  state.history.trustedFromMs = nowMs + CLOCKS_APART_MS
}

/** Asks the market whether the trade is pending; the trade is not sent before the answer. */
export function verifyWithMarket(
  state: SettlementState,
  { trade }: PendingSettlement,
  nowMs: number,
): void {
  state.history.unverified.add(trade.tradeId)
  state.history.verifyingSinceMs = nowMs
  addReport(state, trade.tradeId, { status: 'matched', txHash: '', reason: '', fault: 'none' })
}

/**
 * True while markets are expected to answer soon. No batch is sent during this time, which avoids many small batches.
 */
export function isVerifying({ history }: SettlementState, nowMs: number): boolean {
  const { unverified, verifyingSinceMs } = history
  return unverified.size > 0 && nowMs - verifyingSinceMs < ANSWERS_MS
}

/**
 * Removes a trade after its market has acknowledged the trade's end. For `ENDED_KEPT_MS`, settlement then ignores the
 * trade if the database still returns it.
 */
export function drop(
  state: SettlementState,
  pending: PendingSettlement,
  { nowMs }: SettlementContext,
): void {
  const { tradeId, matchedAtMs } = pending.trade
  state.trades.delete(tradeId)
  if (pending.noted !== undefined) state.notes.ended.add(tradeId)
  state.history.ended.set(tradeId, { atMs: nowMs, matchedAtMs })
  removeEnded(state, () => state.history.ended.size > SETTLEMENT_ENDED_MAX)
}

export function expireEnded(state: SettlementState, nowMs: number): void {
  removeEnded(state, ({ atMs }) => nowMs - atMs >= ENDED_KEPT_MS)
}

/** Removes ended trades, the oldest first, until `isDue` returns false for a trade. */
function removeEnded(state: SettlementState, isDue: (ended: Ended) => boolean): void {
  for (const [tradeId, ended] of state.history.ended) {
    if (!isDue(ended)) return
    state.history.ended.delete(tradeId)
    state.history.trustedFromMs = Math.max(state.history.trustedFromMs, ended.matchedAtMs + 1)
  }
}
