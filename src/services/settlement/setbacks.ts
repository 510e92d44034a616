/**
 * Trades that do not settle. With a side at fault they fail at once, without a transaction; otherwise they wait and
 * are tried again until their deadline, their orders' last second, or too much gas. A batch that reverts or fails
 * as a whole is halved until the trade that does it is alone.
 */

import { backoff } from '#domain/backoff.ts'
import type { MarketId, TradeId } from '#domain/ids.ts'
import type { RefusedTrade } from './chain/settlement-trial.ts'
import { awaitOlder, judge } from './owed.ts'
import { alone, requeue } from './queue.ts'
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
/** How long a trade waits after its first setback; it doubles with each. */
const SETBACK_MS = 2_000
const SETBACK_MS_MAX = 600_000

/** Reverts that are not about any trade: the batch waits until the operator has mended the cause. */
const SYSTEMIC: ReadonlySet<string> = new Set([
  'EnforcedPause',
  'NotOperator',
  'ReentrancyGuardReentrantCall',
  'CollateralStopped',
])

const MARKET_UNKNOWN = 'MarketUnknown'

/** Places of a trade that is in no transaction and under no examination. */
const IDLE: ReadonlySet<Stage> = new Set(['queued', 'awaitingMarket', 'awaitingOlder'])

/** The chain does not know the market yet; it is looked for again after a while. */
export function missMarket(state: SettlementState, marketId: MarketId, nowMs: number): void {
  state.markets.missing.set(marketId, nowMs + MARKET_AGAIN_MS)
}

/** Its market is not on chain yet. It waits, but not for longer than its orders could settle. */
export function wait(
  state: SettlementState,
  pending: PendingSettlement,
  context: SettlementContext,
): void {
  if (isOver(state, pending, context)) failAtLast(state, pending, MARKET_UNKNOWN, context)
  else {
    moveTo(pending, 'awaitingMarket')
    pending.trouble = MARKET_UNKNOWN
    state.older.decided.set(pending.trade.tradeId, 'failed')
  }
}

/**
 * Handles a trade whose transaction reverted, or that was refused on chain after a good simulation, without a side at
 * fault. It is retried with growing pauses until its deadline. If its refusals have cost too much gas, it fails with
 * fault `both`, so that the two quantities do not match again.
 */
export function setBack(
  state: SettlementState,
  pending: PendingSettlement,
  reason: string,
  context: SettlementContext,
): void {
  const { tradeId } = pending.trade
  if (isOver(state, pending, context)) {
    failAtLast(state, pending, reason, context)
    return
  }
  if (pending.wastedGas >= state.rules.retryGasMax) {
    end(state, tradeId, { status: 'failed', reason, fault: 'both' }, context)
    return
  }
  pending.trouble = reason
  pending.notBeforeMs = context.nowMs + backoff(SETBACK_MS, SETBACK_MS_MAX, pending.retries++)
  alone(state, [tradeId])
  state.older.decided.set(tradeId, 'failed')
}

/**
 * An order is matched before it expires and can settle for the whole grace after that: where it cannot, the exchange or
 * the chain was away for so long. That is no trader's fault, whatever the contract calls it.
 */
export const OUT_OF_TIME = 'OrderExpired'

/**
 * Handles trades that the simulation refused. A trade fails at once by the fault of the side that lacks something: a
 * retry would let that side act meanwhile. It waits only for older trades that bring what is missing. A trade that
 * the contract refuses without naming a side would be refused again: it fails with fault `both`, so that the two
 * quantities do not match again.
 */
export function refuse(
  state: SettlementState,
  refused: readonly RefusedTrade[],
  context: SettlementContext,
): void {
  for (const { pending, refusal, owed } of judge(state, refused)) {
    const { fault, reason } = refusal
    const { trade } = pending
    if (reason === OUT_OF_TIME) {
      failAtLast(state, pending, reason, context)
    } else if (reason === MARKET_UNKNOWN) {
      missMarket(state, trade.marketId, context.nowMs)
      wait(state, pending, context)
    } else if (owed !== undefined) {
      awaitOlder(state, pending, owed, context)
    } else {
      const blamed = fault === 'none' ? 'both' : fault
      end(state, trade.tradeId, { status: 'failed', reason, fault: blamed }, context)
    }
  }
}

/**
 * Handles trades whose transaction could not be built or simulated although the chain is reachable: one of them is
 * bad. The batch is halved until that trade is alone. It fails if this process cannot handle its data; if a node does
 * not accept it, it is retried with growing pauses until its deadline.
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
  // Others were sent since its last failure, so only this trade is stuck, and it is no lag.
  if (state.flight.lastSentMs > first.submitFailedAtMs && first.submitFailures > 0) first.retries++
  first.submitFailedAtMs = context.nowMs
  first.trouble = why
  first.notBeforeMs = context.nowMs + backoff(SETBACK_MS, SETBACK_MS_MAX, first.submitFailures++)
  alone(state, [first.trade.tradeId])
}

function halve(state: SettlementState, tradeIds: readonly TradeId[]): void {
  const middle = Math.ceil(tradeIds.length / 2)
  for (const half of [tradeIds.slice(0, middle), tradeIds.slice(middle)]) {
    if (half.length > 0) alone(state, half)
  }
}

/**
 * Fails trades that have not settled although the chain was reachable until their deadline. A trade that is in a
 * transaction is decided by that transaction. A trade whose market does not answer cannot be reported yet.
 */
export function failOverdue(state: SettlementState, context: SettlementContext): void {
  for (const [tradeId, { stage, reachableAtMs, trouble }] of state.trades) {
    if (state.chain.reachableMs - reachableAtMs <= state.rules.tradeDeadlineMs) continue
    if (!IDLE.has(stage) || state.history.unverified.has(tradeId)) continue
    const why = trouble || state.chain.stopped || state.chain.trouble || 'it had no turn'
    context.emit({ type: 'TradeOverdue', tradeId, why })
    end(state, tradeId, { status: 'failed', reason: `DeadlinePassed: ${why}` }, context)
  }
}

function isOver(
  state: SettlementState,
  { trade }: PendingSettlement,
  context: SettlementContext,
): boolean {
  const { buy, sell } = trade
  const lastSec = Math.min(Number(buy.expiration), Number(sell.expiration)) + state.chain.graceSec
  return context.nowMs / 1_000 > lastSec
}

function failAtLast(
  state: SettlementState,
  { trade }: PendingSettlement,
  reason: string,
  context: SettlementContext,
): void {
  end(state, trade.tradeId, { status: 'failed', reason }, context)
}

/** Markets whose time to be looked for has come; their trades go back into the queue. */
export function wakeMarkets(state: SettlementState, nowMs: number): void {
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

/** A batch that reverts as a whole, at some cost if it was sent: halved, until what does it is alone. */
export function isolate(
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
    if (pending !== undefined) setBack(state, pending, `Reverted: ${revert.words}`, context)
    return
  }
  halve(state, tradeIds)
}
