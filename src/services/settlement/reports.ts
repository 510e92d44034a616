/**
 * Sends the reports of trades to their markets, handles the answers, and ends trades. The reports of a trade
 * are sent one after the other, and each is retried until the market acknowledges or rejects it.
 */

import type { TradeId } from '#domain/ids.ts'
import { SETTLEMENT_REPORTS_MAX } from '#domain/limits.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import { payersOf } from './chain/settlement-batch.ts'
import { forgetMined } from './mined-since.ts'
import { leaveQueue } from './queue.ts'
import {
  moveTo,
  type PendingSettlement,
  type ReportAnswer,
  type SettlementContext,
  type SettlementState,
} from './state.ts'

const REORGANISED = 'a reorganisation of the chain removed the transaction of the trade'

export function emitContradiction(tradeId: TradeId, context: SettlementContext): void {
  const what = 'the trade settled on chain after the exchange had recorded it as failed'
  context.emit({ type: 'Contradiction', tradeId, what })
}

/** The fields of a report that states how a trade ended. */
type Ending = Partial<Pick<TradeReport, 'txHash' | 'reason' | 'fault'>> & {
  readonly status: 'confirmed' | 'failed'
}

/** Ends a trade and reports its result. */
export function end(
  state: SettlementState,
  tradeId: TradeId,
  ending: Ending,
  context: SettlementContext,
): void {
  const { status, txHash = '', reason = '', fault = 'none' } = ending
  const pending = state.trades.get(tradeId)
  if (pending === undefined) return
  leaveQueue(state, pending)
  // A failed trade must never settle. If a transaction in flight contains the trade, do not end the trade yet: the
  // result of that transaction decides whether the trade has failed.
  if (status === 'failed' && isInFlight(state, tradeId)) {
    moveTo(pending, 'sent')
    return
  }
  moveTo(pending, 'ended')
  if (status === 'failed') forgetMined(state, pending.trade)
  addReport(state, tradeId, { status, txHash, reason, fault })
  // One poll may report both the block that settled this trade and the trade's end. `decided` then already has the
  // block: keep it, unless the trade has failed.
  if (!state.older.decided.has(tradeId) || status === 'failed')
    state.older.decided.set(tradeId, undefined)
  state.progress.lastMs = context.nowMs
  const waitedMs = context.nowMs - pending.trade.matchedAtMs
  context.emit({
    type: 'TradeEnded',
    status,
    reason,
    fault,
    waitedMs,
    wastedGas: pending.wastedGas,
  })
}

/** True if the trade is in a settlement transaction that is not final yet. */
export function isInFlight(state: SettlementState, tradeId: TradeId): boolean {
  for (const { ended, tradeIds } of state.flight.batches.values()) {
    if (!ended && tradeIds.includes(tradeId)) return true
  }
  return state.flight.vanished.some(({ tradeIds }) => tradeIds.includes(tradeId))
}

/**
 * Adds a report of a trade. If the trade's last report is `submitted` and is not being sent yet, the new report
 * replaces it. A `reverted` report replaces no report.
 */
export function addReport(
  state: SettlementState,
  tradeId: TradeId,
  { status, txHash, reason, fault }: Pick<TradeReport, 'status' | 'txHash' | 'reason' | 'fault'>,
): void {
  const pending = state.trades.get(tradeId)
  if (pending === undefined) return
  const { size, buy, sell } = pending.trade
  const { reports } = pending
  const pointless = reports.at(-1)?.status === 'submitted' && status !== 'reverted'
  if (pointless && !(pending.isReporting && reports.length === 1)) reports.pop()
  reports.push({ tradeId, status, txHash, reason, fault, size, buy, sell })
}

export function sendReports(state: SettlementState, context: SettlementContext): void {
  if (state.reports.inFlight >= SETTLEMENT_REPORTS_MAX) return
  for (const pending of state.trades.values()) {
    const [report] = pending.reports
    if (report === undefined || pending.isReporting || context.nowMs < pending.reportAgainMs)
      continue
    pending.isReporting = true
    state.reports.inFlight++
    const { tradeId, marketId } = pending.trade
    const reported = (answer: ReportAnswer) => ({
      type: 'Reported' as const,
      message: { tradeId, report, answer },
    })
    context.pipe(state.ports.report(marketId, report), reported, (error) =>
      reported({ unanswered: String(error) }),
    )
    if (state.reports.inFlight >= SETTLEMENT_REPORTS_MAX) return
  }
}

/** True if a retry of the same report may succeed. */
export function isTransient({ rejected }: Rejection): boolean {
  return rejected === 'OVERLOADED' || rejected === 'OUTCOME_UNKNOWN'
}

/** Applies the status with which a market answered a report. */
export function applyAnswer(
  state: SettlementState,
  pending: PendingSettlement,
  { report, status }: { readonly report: TradeReport; readonly status: TradeStatus },
  context: SettlementContext,
): void {
  const { tradeId } = pending.trade
  if (report.status === 'reverted') {
    // No further report of the trade is needed. If the market has recorded the trade as failed, no transaction may
    // settle it later.
    if (status === 'failed') abandonFailed(state, pending)
    return
  }
  if (status === report.status) return
  if (report.status === 'matched') {
    // The database lags behind the market, so the market's status counts.
    if (status === 'failed') abandonFailed(state, pending)
    else markSentBefore(pending, status)
  } else if (report.status === 'submitted' && status === 'failed') {
    // The trade failed before a restart, but the database still had it as pending.
    abandonFailed(state, pending)
  } else if (report.status === 'submitted' && status === 'confirmed') {
    pending.isConfirmed = true
    if (pending.stage !== 'sent' && pending.stage !== 'ended')
      revertConfirmed(state, tradeId, report.txHash)
  } else if (report.status === 'failed' && status === 'confirmed') {
    // The market has recorded the trade as confirmed, but a reorg removed the block that settled it. So report the
    // trade as reverted first, then as failed.
    const before = { status: 'reverted', reason: REORGANISED, fault: 'none' } as const
    pending.reports.unshift({ ...report, ...before }, report)
  } else if (report.status === 'confirmed' && status === 'failed') {
    emitContradiction(tradeId, context)
  }
}

/**
 * Records that the trade was sent before a restart. Its next submission first checks whether the chain has settled
 * it.
 */
function markSentBefore(pending: PendingSettlement, status: TradeStatus): void {
  pending.trade = { ...pending.trade, status }
  pending.isConfirmed = status === 'confirmed'
}

/** Reports a confirmed trade as `reverted`; its permits count as unused again. */
export function revertConfirmed(state: SettlementState, tradeId: TradeId, txHash: string): void {
  const pending = state.trades.get(tradeId)
  if (pending === undefined) return
  pending.isConfirmed = false
  for (const { orderHash } of payersOf(pending.trade)) state.flight.usedPermits.delete(orderHash)
  addReport(state, tradeId, { status: 'reverted', txHash, reason: REORGANISED, fault: 'none' })
}

/**
 * Ends a trade that its market has recorded as failed, without a report. Abandons the transactions that could still
 * settle the trade.
 */
function abandonFailed(state: SettlementState, pending: PendingSettlement): void {
  if (pending.stage === 'ended') return
  const { tradeId, tradeKey } = pending.trade
  leaveQueue(state, pending)
  moveTo(pending, 'ended')
  forgetMined(state, pending.trade)
  for (const batch of state.flight.batches.values()) {
    if (batch.ended || !batch.tradeIds.includes(tradeId)) continue
    batch.unwanted.set(tradeKey, tradeId)
    state.ports.lane.abandon(batch)
  }
}

/**
 * Returns whether the market must still acknowledge the report of the trade's end, or of a reorg that reverted the
 * trade. A restart loses unacknowledged reports. So the trade's transaction stays open in the journal until the market
 * has acknowledged the report.
 */
export function isUnreported(pending: PendingSettlement | undefined): boolean {
  if (pending === undefined) return false
  return pending.stage === 'ended' || pending.reports.some(({ status }) => status === 'reverted')
}
