/** How far settlement is behind, and why. */

import { MARKET_AGAIN_MS } from './setbacks.ts'
import type { SettlementContext, SettlementState, SettlementStatus } from './state.ts'

const MISSING_KEPT_MS = 10 * MARKET_AGAIN_MS

/** Why settlement does not get on; empty when it does. */
function whyStuck(state: SettlementState): string {
  if (state.misfit !== '') return state.misfit
  if (state.stopped !== '') return state.stopped
  for (const { why } of state.pauses.values()) return why
  return state.trouble
}

export function statusOf(state: SettlementState): SettlementStatus {
  let inFlight = 0
  let waiting = 0
  let setBack = 0
  let unreported = 0
  for (const { place, reports, setbacks } of state.held.values()) {
    if (place === 'sending' || place === 'sent') inFlight++
    if (place === 'waiting' || place === 'owed') waiting++
    if (setbacks > 0 && place !== 'ended') setBack++
    if (reports.length > 0) unreported++
  }
  return {
    chainId: state.rules.chainId,
    queued: state.queue.length + state.groups.reduce((sum, group) => sum + group.length, 0),
    inFlight,
    waiting,
    setBack,
    unreported,
    oldestMs: state.oldestMs,
    behind: state.behind,
    why: whyStuck(state),
  }
}

/**
 * Finds how long the oldest trade that could have settled has waited. A trade that is set back while others settle
 * does not count: it alone must not stop the chain's markets. Nor does one whose market has not answered about it.
 */
export function watchLag(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { maxLagMs } = state.rules
  for (const [marketId, untilMs] of state.missingUntilMs) {
    if (nowMs - untilMs > maxLagMs + MISSING_KEPT_MS) state.missingUntilMs.delete(marketId)
  }
  let oldestMs = nowMs
  let matchedMs = nowMs
  for (const { place, trade, setbacks, couldSinceMs, untriedUntilMs } of state.held.values()) {
    if (place !== 'ended') matchedMs = Math.min(matchedMs, trade.matchedAtMs)
    if (place === 'waiting' || place === 'ended' || state.doubted.has(trade.tradeId)) continue
    if (setbacks > 0 || nowMs < untriedUntilMs) continue
    const couldMs = Math.max(couldSinceMs, state.missingUntilMs.get(trade.marketId) ?? 0)
    oldestMs = Math.min(oldestMs, couldMs)
  }
  // While the database cannot be read, it is not known what waits in it.
  const blind = state.pauses.has('read') || state.pauses.has('recover')
  if (blind) oldestMs = Math.min(oldestMs, state.lastReadMs)
  state.lagMs = nowMs - oldestMs
  state.oldestMs = Math.max(state.lagMs, nowMs - matchedMs)
  const behind = maxLagMs > 0 && state.lagMs > maxLagMs
  if (behind === state.behind) return
  state.behind = behind
  context.emit({ type: 'LagChanged', behind, lagMs: state.lagMs })
}
