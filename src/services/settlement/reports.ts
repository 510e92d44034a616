/**
 * What markets are told of their trades, one report after the other, again until each is answered; what
 * follows from an answer; and the end of a trade.
 */

import type { TradeId } from '#domain/ids.ts'
import { SETTLEMENT_REPORTS_MAX } from '#domain/limits.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import { noteMined, unnoteMined } from './mined-since.ts'
import { leaveQueue } from './queue.ts'
import {
  moveTo,
  type PendingSettlement,
  type ReportAnswer,
  type SettlementContext,
  type SettlementState,
} from './state.ts'

const REORGANISED = 'a reorganisation of the chain removed its transaction'

export function contradict(tradeId: TradeId, context: SettlementContext): void {
  const what = 'it settled on chain after it had failed here'
  context.emit({ type: 'Contradiction', tradeId, what })
}

/** How a trade ends; without a transaction, a reason or a fault where it has none. */
type Ending = Partial<Pick<TradeReport, 'txHash' | 'reason' | 'fault'>> & {
  readonly status: 'confirmed' | 'failed'
}

/** The chain has decided about a trade. */
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
  // A failed trade must never settle: if a transaction may still settle it, that transaction decides.
  if (status === 'failed' && isUnderWay(state, tradeId)) {
    moveTo(pending, 'sent')
    return
  }
  moveTo(pending, 'ended')
  if (status === 'confirmed') noteMined(state, pending.trade)
  else unnoteMined(state, pending.trade)
  tell(state, tradeId, { status, txHash, reason, fault })
  const isMined = state.older.decided.get(tradeId) === 'mined'
  if (!isMined) state.older.decided.set(tradeId, status === 'confirmed' ? 'settled' : 'failed')
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

/** True if one of our transactions that is not final contains the trade. */
export function isUnderWay(state: SettlementState, tradeId: TradeId): boolean {
  for (const { ended, tradeIds } of state.flight.batches.values()) {
    if (!ended && tradeIds.includes(tradeId)) return true
  }
  return state.flight.vanished.some(({ tradeIds }) => tradeIds.includes(tradeId))
}

/** Plans a report. One that the newer makes pointless is left out. */
export function tell(
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

export function deliver(state: SettlementState, context: SettlementContext): void {
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

/** Whether the same report may be heard later. */
export function isPassing({ rejected }: Rejection): boolean {
  return rejected === 'OVERLOADED' || rejected === 'OUTCOME_UNKNOWN'
}

/** What a market made of a report. */
export function heard(
  state: SettlementState,
  pending: PendingSettlement,
  { report, status }: { readonly report: TradeReport; readonly status: TradeStatus },
  context: SettlementContext,
): void {
  const { tradeId } = pending.trade
  if (report.status === 'reverted') {
    // Not confirmed yet: there was nothing to take back. Failed: it must not settle any more.
    if (status === 'failed') dropFailed(state, pending)
    return
  }
  if (status === report.status) return
  if (report.status === 'matched') {
    // It was read from a database that is behind.
    if (status === 'failed') dropFailed(state, pending)
    else askChainFirst(pending, status)
  } else if (report.status === 'submitted' && status === 'failed') {
    // It failed before a restart, and what was read then did not say so.
    dropFailed(state, pending)
  } else if (report.status === 'submitted' && status === 'confirmed') {
    pending.isConfirmed = true
    if (pending.stage !== 'sent' && pending.stage !== 'ended')
      takeBack(state, tradeId, report.txHash)
  } else if (report.status === 'failed' && status === 'confirmed') {
    // It was confirmed by a block that has gone, which was not noticed at the time.
    const before = { status: 'reverted', reason: REORGANISED, fault: 'none' } as const
    pending.reports.unshift({ ...report, ...before }, report)
  } else if (report.status === 'confirmed' && status === 'failed') {
    contradict(tradeId, context)
  }
}

/** It was sent before: the chain is asked about it before anything else is found out. */
function askChainFirst(pending: PendingSettlement, status: TradeStatus): void {
  pending.trade = { ...pending.trade, status }
  pending.isConfirmed = status === 'confirmed'
}

/** It is not settled any more, whatever was told, and its permit is not used. */
export function takeBack(state: SettlementState, tradeId: TradeId, txHash: string): void {
  const pending = state.trades.get(tradeId)
  if (pending === undefined) return
  pending.isConfirmed = false
  state.flight.usedPermits.delete(pending.trade.buy.orderHash)
  tell(state, tradeId, { status: 'reverted', txHash, reason: REORGANISED, fault: 'none' })
}

/** A trade that has failed is under way again: what it is in had better not be mined. */
function dropFailed(state: SettlementState, pending: PendingSettlement): void {
  if (pending.stage === 'ended') return
  const { tradeId, tradeKey } = pending.trade
  leaveQueue(state, pending)
  moveTo(pending, 'ended')
  unnoteMined(state, pending.trade)
  for (const batch of state.flight.batches.values()) {
    if (batch.ended || !batch.tradeIds.includes(tradeId)) continue
    batch.unwanted.set(tradeKey, tradeId)
    state.ports.lane.abandon(batch)
  }
}

/** Whether its market has to hear something that a restart could not find out. */
export function isUntold(pending: PendingSettlement | undefined): boolean {
  if (pending === undefined) return false
  return pending.stage === 'ended' || pending.reports.some(({ status }) => status === 'reverted')
}
