/**
 * Logs why settlement waits. An event states all reasons if no trade has ended for 10 s although trades are open, or
 * although a step has not answered. The event is repeated every 30 s.
 */

import type { PendingSettlement, SettlementContext, SettlementState } from './state.ts'

const STALLED_MS = 10_000
const AGAIN_MS = 30_000

export function watchStall(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { progress } = state
  const isIdle = state.reads.recovered && state.trades.size === 0 && !isOverdue(state, nowMs)
  if (isIdle || progress.lastMs === 0) {
    progress.lastMs = nowMs
    return
  }
  const forMs = nowMs - progress.lastMs
  if (forMs < STALLED_MS || nowMs - progress.loggedMs < AGAIN_MS) return
  progress.loggedMs = nowMs
  context.emit({
    type: 'Stalled',
    forMs,
    trades: state.trades.size,
    why: whatIsAwaited(state, nowMs),
  })
}

/** True if a step has been running for at least `STALLED_MS`. Its answer may never arrive. */
function isOverdue({ steps }: SettlementState, nowMs: number): boolean {
  return [...steps.busy.values()].some((sinceMs) => nowMs - sinceMs >= STALLED_MS)
}

function whatIsAwaited(state: SettlementState, nowMs: number): string {
  const { steps, history, chain, trades, reports } = state
  const parts: string[] = []
  for (const [step, sinceMs] of steps.busy) {
    if (nowMs - sinceMs >= STALLED_MS)
      parts.push(`the step ${step} has had no answer for ${seconds(nowMs - sinceMs)}`)
  }
  for (const [step, { why }] of steps.pauses) parts.push(`${step} failed: ${why}`)
  if (history.unverified.size > 0)
    parts.push(
      `${history.unverified.size} trades wait until their markets confirm that they are unsettled`,
    )
  if (reports.unanswered !== '')
    parts.push(`a market did not acknowledge a settlement report: ${reports.unanswered}`)
  if (chain.stopped !== '') parts.push(chain.stopped)
  if (chain.trouble !== '') parts.push(chain.trouble)
  const stages = Object.entries(Object.groupBy(trades.values(), stageOf))
  parts.push(...stages.map(([stage, those]) => `${those?.length ?? 0} ${stage}`))
  return parts.join('; ')
}

const stageOf = ({ stage }: PendingSettlement) => stage
const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`
