/**
 * Trades that cannot settle now for a reason that is neither trader's fault: they wait and are tried
 * again, until their orders cannot settle any more, or they have been refused too often. A batch that
 * reverts as a whole is halved until the trade that does it is alone.
 */

import { backoff } from '#domain/backoff.ts'
import type { MarketId, TradeId } from '#domain/ids.ts'
import { alone, requeue } from './queue.ts'
import { end } from './reports.ts'
import type { Held, SettlementContext, SettlementState } from './state.ts'

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
])

/** The chain does not know the market yet; it is looked for again after a while. */
export function missMarket(state: SettlementState, marketId: MarketId, nowMs: number): void {
  state.unknownMarkets.set(marketId, nowMs + MARKET_AGAIN_MS)
}

/** Its market is not on chain yet. It waits, but not for longer than its orders could settle. */
export function wait(state: SettlementState, held: Held, context: SettlementContext): void {
  if (isOver(state, held, context)) failAtLast(state, held, 'MarketUnknown', context)
  else held.place = 'waiting'
}

/**
 * Neither side is at fault: the stablecoin refuses every transfer, or both of the two, or the reason is unknown. If
 * such a trade failed at once, both quantities would go back into the book, meet again, and fail again,
 * for ever. So it is tried again, less and less often. Each time it is simulated first, and sent only if it
 * would settle, so that a refusal costs gas once. A trade that has been refused as often as may be, or at as
 * much cost, fails in the name of both, and neither quantity comes back.
 */
export function setBack(
  state: SettlementState,
  held: Held,
  reason: string,
  context: SettlementContext,
): void {
  const { retriesMax, retryGasMax } = state.rules
  held.refusal = reason
  if (isOver(state, held, context)) {
    failAtLast(state, held, reason, context)
    return
  }
  if (held.setbacks >= retriesMax || held.setbackGas >= retryGasMax) {
    end(state, held.trade.tradeId, { status: 'failed', reason, fault: 'both' }, context)
    return
  }
  const waitMs = backoff(SETBACK_MS, SETBACK_MS_MAX, held.setbacks++)
  held.notBeforeMs = context.nowMs + waitMs
  alone(state, [held.trade.tradeId])
}

function isOver(state: SettlementState, { trade }: Held, context: SettlementContext): boolean {
  const { buy, sell } = trade
  const lastSec = Math.min(Number(buy.expiration), Number(sell.expiration)) + state.graceSec
  return context.nowMs / 1_000 > lastSec
}

function failAtLast(
  state: SettlementState,
  { trade }: Held,
  reason: string,
  context: SettlementContext,
): void {
  end(state, trade.tradeId, { status: 'failed', reason }, context)
}

/** Markets whose time to be looked for has come; their trades go back into the queue. */
export function wakeMarkets(state: SettlementState, nowMs: number): void {
  for (const [marketId, againMs] of state.unknownMarkets) {
    if (nowMs < againMs) continue
    state.unknownMarkets.delete(marketId)
    state.missingUntilMs.set(marketId, nowMs)
    state.readFull = true
    for (const [tradeId, { place, trade }] of state.held) {
      if (place === 'waiting' && trade.marketId === marketId) requeue(state, tradeId, 0)
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
    const held = state.held.get(tradeId)
    if (held !== undefined) held.setbackGas += revert.gasEach ?? 0
  }
  context.emit({ type: 'BatchReverts', trades: tradeIds.length, why: revert.words })
  if (SYSTEMIC.has(revert.name)) {
    state.stopped = revert.words
    for (const tradeId of tradeIds) requeue(state, tradeId, nowMs + SYSTEMIC_AGAIN_MS)
    return
  }
  const [first] = tradeIds
  if (tradeIds.length === 1 && first !== undefined) {
    const held = state.held.get(first)
    if (held !== undefined) setBack(state, held, `Reverted: ${revert.words}`, context)
    return
  }
  const middle = Math.ceil(tradeIds.length / 2)
  alone(state, tradeIds.slice(0, middle))
  alone(state, tradeIds.slice(middle))
}
