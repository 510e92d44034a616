/**
 * Protects settlement from a database that lags and still returns an ended trade as pending. If a trade failed without
 * a transaction, neither the chain nor the journal of transactions has this failure. If settlement sent the trade
 * again, it could settle although its market has recorded it as failed and has returned its quantity to an order. So
 * settlement ignores an ended trade for `ENDED_KEPT_MS` and then forgets it.
 *
 * Before settlement sends a trade that it may have forgotten, it asks the trade's market whether the trade is pending.
 * It does so for trades matched up to `CLOCKS_APART_MS` after this process started, and for trades matched no later
 * than a forgotten trade. It sends all other trades without asking.
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
/**
 * Maximum time for which settlement sends no batch while markets verify trades, so that trades verified in this time
 * can share a batch.
 */
const ANSWERS_MS = 500

/**
 * Requires that a trade matched before `nowMs + CLOCKS_APART_MS` is verified with its market before it is sent. Called
 * after a restart.
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
 * Returns true while markets are expected to answer soon whether trades are pending. No batch is sent during this time,
 * which avoids many small batches.
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
