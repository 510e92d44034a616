/** Tracks pending trades, keeps their queue, and chooses the next batch. */

import assert from 'node:assert/strict'
import type { TradeId } from '#domain/ids.ts'
import type { TradeToSettle, TradeWithOrders } from '#domain/trade.ts'
import { withoutClaimed } from './claims.ts'
import { beginMinedWatch } from './mined-since.ts'
import { onePermitEach } from './permit-turns.ts'
import {
  moveTo,
  type PendingSettlement,
  type SettlementContext,
  type SettlementState,
  type Stage,
} from './state.ts'
import { failure, mayBegin, tryBegin } from './steps.ts'
import { endTurns, inTurns, takerOf } from './turns.ts'

/**
 * Time from the read of a trade until it counts in the lag. If its first submission ends earlier, the trade counts from
 * then on.
 */
const UNTRIED_MS = 5_000

/** Moves the pending trade to the given stage and returns it; adds the trade if it is new. */
export function track(
  state: SettlementState,
  trade: TradeWithOrders,
  stage: Stage,
  nowMs: number,
): PendingSettlement {
  const known = state.trades.get(trade.tradeId)
  if (known !== undefined) {
    moveTo(known, stage)
    return known
  }
  const pending: PendingSettlement = {
    trade: { ...trade, tradeKey: keyOf(state, trade) },
    stage,
    readySinceMs: nowMs,
    settleableSinceMs: trade.matchedAtMs,
    lagFromMs: stage === 'queued' ? nowMs + UNTRIED_MS : 0,
    notBeforeMs: 0,
    missing: undefined,
    refusal: undefined,
    retries: 0,
    submitFailures: 0,
    submitFailedAtMs: 0,
    trouble: '',
    reachableAtMs: state.chain.reachableMs,
    noted: undefined,
    wastedGas: 0,
    reports: [],
    isReporting: false,
    reportAgainMs: 0,
    isConfirmed: trade.status === 'confirmed',
  }
  state.trades.set(trade.tradeId, pending)
  return pending
}

/**
 * Returns the trade's id on the chain. Returns '' for a trade that cannot be hashed: the contract cannot settle such a
 * trade, so its submission fails.
 */
function keyOf({ ports }: SettlementState, trade: TradeWithOrders): string {
  try {
    return ports.keyOf(trade)
  } catch {
    return ''
  }
}

/** Appends a trade with the stage `queued` to the queue. */
export function enqueue(state: SettlementState, pending: PendingSettlement): void {
  state.queue.tradeIds.push(pending.trade.tradeId)
  state.queue.turns.add(takerOf(pending.trade))
}

/** Puts a trade back into the queue; it is not sent before `notBeforeMs`. */
export function requeue(state: SettlementState, tradeId: TradeId, notBeforeMs: number): void {
  const pending = state.trades.get(tradeId)
  if (pending === undefined || pending.stage === 'queued' || pending.stage === 'ended') return
  pending.notBeforeMs = notBeforeMs
  state.older.waiting.delete(tradeId)
  moveTo(pending, 'queued')
  enqueue(state, pending)
}

/**
 * Submits the next batch. Waits if too many transactions are in no block yet, or if markets have not acknowledged a
 * reorg.
 */
export function sendNext(state: SettlementState, context: SettlementContext): void {
  let unmined = 0
  for (const { mined, ended, vanished } of state.flight.batches.values()) {
    if (vanished) return
    if (!mined && !ended) unmined++
  }
  if (state.flight.vanished.length > 0) return
  if (unmined >= state.rules.inFlightMax || !mayBegin(state, 'submit', context.nowMs)) return
  const chosen = nextBatch(state, context.nowMs)
  if (chosen.length === 0 || !tryBegin(state, 'submit', context.nowMs)) return
  beginMinedWatch(state)
  const trades = takeOut(state, chosen)
  context.pipe(
    state.ports.lane.submit(trades, { usedPermits: state.flight.usedPermits }),
    (submission) => ({ type: 'Submitted', message: { tradeIds: chosen, submission } }),
    failure('submit', { tradeIds: chosen }),
  )
}

/** Removes the trades of a batch from the queue, or from the groups that are sent separately. */
function takeOut(state: SettlementState, chosen: TradeId[]): TradeToSettle[] {
  const { queue, trades } = state
  const taken = chosen.map((tradeId) => {
    const pending = trades.get(tradeId)
    assert(pending !== undefined, `${tradeId} is queued but unknown`)
    moveTo(pending, 'submitting')
    const { trade, refusal } = pending
    return refusal === undefined ? trade : { ...trade, refusal }
  })
  const group = queue.groups.indexOf(chosen)
  if (group >= 0) queue.groups.splice(group, 1)
  else {
    const ids = new Set(chosen)
    keep(queue.tradeIds, (tradeId) => !ids.has(tradeId))
    endTurns(state, taken)
  }
  return taken
}

/** Returns the trades of the next batch; empty while the batch waits for more trades. */
function nextBatch(state: SettlementState, nowMs: number): TradeId[] {
  const ready = (tradeId: TradeId): boolean =>
    (state.trades.get(tradeId)?.notBeforeMs ?? Number.POSITIVE_INFINITY) <= nowMs
  const group = state.queue.groups.find((each) => each.every(ready))
  if (group !== undefined) return group
  const { batchMax, batchWaitMs } = state.rules
  const waiting: TradeToSettle[] = []
  let oldestMs = nowMs
  for (const tradeId of state.queue.tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || !ready(tradeId)) continue
    if (state.history.unverified.has(tradeId)) continue
    waiting.push(pending.trade)
    oldestMs = Math.min(oldestMs, pending.readySinceMs)
  }
  if (waiting.length < batchMax && nowMs - oldestMs < batchWaitMs) return []
  const sendable = withoutClaimed(state, onePermitEach(state, waiting), nowMs)
  return inTurns(sendable, state.queue.turns, batchMax).map(({ tradeId }) => tradeId)
}

function keep<T>(list: T[], wanted: (each: T) => boolean): void {
  let kept = 0
  for (const each of list) if (wanted(each)) list[kept++] = each
  list.length = kept
}

/** Queues trades as a separate batch. */
export function queueGroup(state: SettlementState, tradeIds: TradeId[]): void {
  for (const tradeId of tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending !== undefined) moveTo(pending, 'queued')
  }
  state.queue.groups.push(tradeIds)
}

export function leaveQueue(
  state: SettlementState,
  { stage, trade: { tradeId } }: PendingSettlement,
): void {
  if (stage !== 'queued') return
  keep(state.queue.tradeIds, (each) => each !== tradeId)
  for (const group of state.queue.groups) keep(group, (each) => each !== tradeId)
  keep(state.queue.groups, (group) => group.length > 0)
}
