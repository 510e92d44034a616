/** Computes the lag and the status of settlement, and the reason why settlement makes no progress. */

import { MARKET_AGAIN_MS } from './retries.ts'
import type { SettlementContext, SettlementState, SettlementStatus } from './state.ts'

const MISSING_KEPT_MS = 10 * MARKET_AGAIN_MS

/** Returns why settlement makes no progress; empty if it makes progress. */
function whyStuck(state: SettlementState): string {
  if (state.chain.misfit !== '') return state.chain.misfit
  if (state.chain.stopped !== '') return state.chain.stopped
  for (const { why } of state.steps.pauses.values()) return why
  return state.chain.trouble
}

export function statusOf(state: SettlementState): SettlementStatus {
  let inFlight = 0
  let waiting = 0
  let retrying = 0
  let unreported = 0
  for (const { stage, reports, retries } of state.trades.values()) {
    if (stage === 'submitting' || stage === 'sent') inFlight++
    if (stage === 'awaitingMarket' || stage === 'awaitingOlder') waiting++
    if (retries > 0 && stage !== 'ended') retrying++
    if (reports.length > 0) unreported++
  }
  return {
    queued:
      state.queue.tradeIds.length +
      state.queue.groups.reduce((sum, group) => sum + group.length, 0),
    inFlight,
    waiting,
    retrying,
    unreported,
    why: whyStuck(state),
  }
}

/**
 * Computes the lag of settlement: the time since the oldest unsettled trade could have settled. Above `maxLagMs`, the
 * chain's markets accept only cancels, and a single trade must not cause this. So a trade that is being retried does
 * not count. A trade whose market has not yet confirmed that it is pending does not count either.
 */
export function watchLag(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { maxLagMs } = state.rules
  for (const [marketId, untilMs] of state.markets.missingUntilMs) {
    if (nowMs - untilMs > maxLagMs + MISSING_KEPT_MS) state.markets.missingUntilMs.delete(marketId)
  }
  let oldestMs = nowMs
  let matchedMs = nowMs
  for (const { stage, trade, retries, settleableSinceMs, lagFromMs } of state.trades.values()) {
    if (stage !== 'ended') matchedMs = Math.min(matchedMs, trade.matchedAtMs)
    if (
      stage === 'awaitingMarket' ||
      stage === 'ended' ||
      state.history.unverified.has(trade.tradeId)
    )
      continue
    if (retries > 0 || nowMs < lagFromMs) continue
    const couldMs = Math.max(
      settleableSinceMs,
      state.markets.missingUntilMs.get(trade.marketId) ?? 0,
    )
    oldestMs = Math.min(oldestMs, couldMs)
  }
  // If reads of the database fail, the database may contain older trades that settlement does not know. So the lag is
  // at least the time since the last successful read.
  const blind = state.steps.pauses.has('read') || state.steps.pauses.has('recover')
  if (blind) oldestMs = Math.min(oldestMs, state.reads.lastMs)
  state.lag.ms = nowMs - oldestMs
  state.lag.oldestMs = Math.max(state.lag.ms, nowMs - matchedMs)
  const behind = maxLagMs > 0 && state.lag.ms > maxLagMs
  if (behind === state.lag.behind) return
  state.lag.behind = behind
  context.emit({ type: 'LagChanged', behind, lagMs: state.lag.ms })
}
