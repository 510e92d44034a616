/**
 * Handles trades that do not settle. If a side is at fault, the trade fails at once, without a transaction. Otherwise
 * it is retried. The retries end at the trade's deadline, or when the contract's grace (extra time after the orders'
 * expiration) has ended, or when failed attempts have cost `retryGasMax` gas. A batch that reverts as a whole is halved
 * until the trade that causes the revert is alone.
 */

import { backoff } from '#domain/backoff.ts'
import type { MarketId, TradeId } from '#domain/ids.ts'
import type { RefusedTrade } from './chain/simulation.ts'
import { awaitOlder, judge } from './older-trades.ts'
import { queueGroup, requeue } from './queue.ts'
import { end } from './reports.ts'
import {
  moveTo,
  type PendingSettlement,
  type SettlementContext,
  type SettlementState,
  type Stage,
} from './state.ts'

export const MARKET_AGAIN_MS = 2_000
const SYSTEMIC_AGAIN_MS = 2_000
/** Pause before the first retry; the pause doubles with each retry. */
const RETRY_MS = 2_000
const RETRY_MS_MAX = 600_000

/**
 * Names of reverts that no single trade causes. The batch's trades are retried until the operator has fixed
 * the cause.
 */
const SYSTEMIC: ReadonlySet<string> = new Set([
  'EnforcedPause',
  'NotOperator',
  'ReentrancyGuardReentrantCall',
  'CollateralStopped',
])

const MARKET_UNKNOWN = 'MarketUnknown'

/** Stages in which a trade is neither in a transaction nor being submitted. */
const IDLE: ReadonlySet<Stage> = new Set(['queued', 'awaitingMarket', 'awaitingOlder'])

/** Notes a market that the chain does not know; its trades are retried after `MARKET_AGAIN_MS`. */
export function noteMissingMarket(state: SettlementState, marketId: MarketId, nowMs: number): void {
  state.markets.missing.set(marketId, nowMs + MARKET_AGAIN_MS)
}

/** Makes a trade wait until its market is on the chain. The wait ends when the trade's orders can no longer settle. */
export function awaitMarket(
  state: SettlementState,
  pending: PendingSettlement,
  context: SettlementContext,
): void {
  if (isExpired(state, pending, context)) failWithoutFault(state, pending, MARKET_UNKNOWN, context)
  else {
    moveTo(pending, 'awaitingMarket')
    pending.missing = undefined
    pending.trouble = MARKET_UNKNOWN
    state.older.decided.set(pending.trade.tradeId, undefined)
  }
}

/**
 * Retries a trade after a growing pause. No side is at fault: the trade's transaction reverted, or the chain refused
 * the trade after a simulation that succeeded. If the grace after an order's expiration has ended, the trade fails
 * instead, with no side at fault. If the failed attempts have cost `retryGasMax` gas, it fails with fault `both`, so
 * that the quantities of its two orders do not match each other again.
 */
export function retryLater(
  state: SettlementState,
  pending: PendingSettlement,
  reason: string,
  context: SettlementContext,
): void {
  const { tradeId } = pending.trade
  if (isExpired(state, pending, context)) {
    failWithoutFault(state, pending, reason, context)
    return
  }
  if (pending.wastedGas >= state.rules.retryGasMax) {
    end(state, tradeId, { status: 'failed', reason, fault: 'both' }, context)
    return
  }
  pending.trouble = reason
  pending.notBeforeMs = context.nowMs + backoff(RETRY_MS, RETRY_MS_MAX, pending.retries++)
  queueGroup(state, [tradeId])
  state.older.decided.set(tradeId, undefined)
}

/**
 * Reason with which the contract refuses a trade after the grace that follows an order's expiration. The contract names
 * a side, but no trader is at fault. Every order matches before it expires, and can still settle during the grace. So a
 * trade misses the grace only if the exchange or the chain was unavailable for longer than the grace.
 */
export const OUT_OF_TIME = 'OrderExpired'

/**
 * Handles trades that the simulation refused. If older trades will bring the missing balance, the trade waits for them.
 * Otherwise the trade fails at once, because a retry would give the side at fault time to act. If the contract names no
 * side, it would refuse the trade again. The trade then fails with fault `both`, so that the quantities of its two
 * orders do not match each other again.
 */
export function applyRefusals(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  context: SettlementContext,
): void {
  for (const { pending, refusal, missing } of judge(state, refused, context.nowMs)) {
    const { fault, reason } = refusal
    const { trade } = pending
    if (reason === OUT_OF_TIME) {
      failWithoutFault(state, pending, reason, context)
    } else if (reason === MARKET_UNKNOWN) {
      noteMissingMarket(state, trade.marketId, context.nowMs)
      awaitMarket(state, pending, context)
    } else if (missing !== undefined) {
      awaitOlder(state, pending, missing, context)
    } else {
      const blamed = fault === 'none' ? 'both' : fault
      end(state, trade.tradeId, { status: 'failed', reason, fault: blamed }, context)
    }
  }
}

/**
 * Handles a batch that could not be built or simulated although the chain is reachable, because one of its trades is
 * bad. The batch is halved until the bad trade is alone. The bad trade fails if this process cannot handle the trade's
 * data. If a node rejects the trade instead, the trade is retried with growing pauses until its deadline.
 */
export function isolateFailing(
  state: SettlementState,
  tradeIds: readonly TradeId[],
  { why, unexpected }: { readonly why: string; readonly unexpected: boolean },
  context: SettlementContext,
): void {
  const pending = tradeIds.flatMap((tradeId) => state.trades.get(tradeId) ?? [])
  const [first] = pending
  if (pending.length !== 1 || first === undefined) {
    halve(state, tradeIds)
    return
  }
  if (unexpected) {
    const ending = { status: 'failed', reason: `Unprocessable: ${why}`, fault: 'both' } as const
    end(state, first.trade.tradeId, ending, context)
    return
  }
  // If other batches were sent since this trade's last failure, only this trade is stuck. Count a retry, so that the
  // trade no longer counts as lag.
  if (state.flight.lastSentMs > first.submitFailedAtMs && first.submitFailures > 0) first.retries++
  first.submitFailedAtMs = context.nowMs
  first.trouble = why
  first.notBeforeMs = context.nowMs + backoff(RETRY_MS, RETRY_MS_MAX, first.submitFailures++)
  queueGroup(state, [first.trade.tradeId])
}

function halve(state: SettlementState, tradeIds: readonly TradeId[]): void {
  const middle = Math.ceil(tradeIds.length / 2)
  for (const half of [tradeIds.slice(0, middle), tradeIds.slice(middle)]) {
    if (half.length > 0) queueGroup(state, half)
  }
}

/**
 * Fails trades that have not settled by their deadline. The deadline counts only time in which the chain was reachable.
 * Skips a trade that is being submitted or is in a transaction, because the transaction decides it. Also skips a trade
 * whose market has not answered yet whether it is pending, because the trade's end cannot be reported.
 */
export function failOverdue(state: SettlementState, context: SettlementContext): void {
  for (const [tradeId, { stage, reachableAtMs, trouble }] of state.trades) {
    if (state.chain.reachableMs - reachableAtMs <= state.rules.tradeDeadlineMs) continue
    if (!IDLE.has(stage) || state.history.unverified.has(tradeId)) continue
    const why =
      trouble || state.chain.stopped || state.chain.trouble || 'the trade was never in a batch'
    context.emit({ type: 'TradeOverdue', tradeId, why })
    end(state, tradeId, { status: 'failed', reason: `DeadlinePassed: ${why}` }, context)
  }
}

function isExpired(
  state: SettlementState,
  { trade }: PendingSettlement,
  context: SettlementContext,
): boolean {
  const { buy, sell } = trade
  const lastSec = Math.min(Number(buy.expiration), Number(sell.expiration)) + state.chain.graceSec
  return context.nowMs / 1_000 > lastSec
}

function failWithoutFault(
  state: SettlementState,
  { trade }: PendingSettlement,
  reason: string,
  context: SettlementContext,
): void {
  end(state, trade.tradeId, { status: 'failed', reason }, context)
}

/** Queues the trades of missing markets again once `MARKET_AGAIN_MS` has passed. */
export function retryMissingMarkets(state: SettlementState, nowMs: number): void {
  for (const [marketId, againMs] of state.markets.missing) {
    if (nowMs < againMs) continue
    state.markets.missing.delete(marketId)
    state.markets.missingUntilMs.set(marketId, nowMs)
    state.reads.isFull = true
    for (const [tradeId, { stage, trade }] of state.trades) {
      if (stage === 'awaitingMarket' && trade.marketId === marketId) requeue(state, tradeId, 0)
    }
  }
}

/** Halves a batch that reverts as a whole; a batch with only one trade is retried later. */
export function isolateReverting(
  state: SettlementState,
  tradeIds: readonly TradeId[],
  revert: { readonly name: string; readonly words: string; readonly gasEach?: number },
  context: SettlementContext,
): void {
  const { nowMs } = context
  if (tradeIds.length === 0) return
  for (const tradeId of tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending !== undefined) pending.wastedGas += revert.gasEach ?? 0
  }
  context.emit({ type: 'BatchReverts', trades: tradeIds.length, why: revert.words })
  if (SYSTEMIC.has(revert.name)) {
    state.chain.stopped = revert.words
    for (const tradeId of tradeIds) requeue(state, tradeId, nowMs + SYSTEMIC_AGAIN_MS)
    return
  }
  const [first] = tradeIds
  if (tradeIds.length === 1 && first !== undefined) {
    const pending = state.trades.get(first)
    if (pending !== undefined) retryLater(state, pending, `Reverted: ${revert.words}`, context)
    return
  }
  halve(state, tradeIds)
}
