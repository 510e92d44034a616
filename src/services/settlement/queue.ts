/** The trades that settlement holds: which wait to be sent, and which of them go out together next. */

import assert from 'node:assert/strict'
import type { TradeId } from '#domain/ids.ts'
import type { TradeToSettle, TradeWithOrders } from '#domain/trade.ts'
import { watchMined } from './mined-since.ts'
import { onePermitEach } from './permit-turns.ts'
import type { Held, Place, SettlementContext, SettlementState } from './state.ts'
import { begun, failure, mayBegin } from './steps.ts'
import { endTurns, inTurns, takerOf } from './turns.ts'

/** How long a trade that was just read has until it is tried, before its age counts as lag. */
const UNTRIED_MS = 5_000

export function hold(
  state: SettlementState,
  trade: TradeWithOrders,
  place: Place,
  nowMs: number,
): Held {
  const known = state.held.get(trade.tradeId)
  if (known !== undefined) {
    known.place = place
    return known
  }
  const held: Held = {
    trade: { ...trade, tradeKey: keyOf(state, trade) },
    place,
    readySinceMs: nowMs,
    couldSinceMs: trade.matchedAtMs,
    untriedUntilMs: place === 'queued' ? nowMs + UNTRIED_MS : 0,
    notBeforeMs: 0,
    owed: undefined,
    setbacks: 0,
    failures: 0,
    failedAtMs: 0,
    trouble: '',
    reachableAtMs: state.reachableMs,
    wastedGas: 0,
    reports: [],
    confirmed: trade.status === 'confirmed',
    asking: false,
    askAgainMs: 0,
  }
  state.held.set(trade.tradeId, held)
  return held
}

/** Empty for a trade that cannot be hashed: the contract cannot settle it, and its submission fails alone. */
function keyOf({ ports }: SettlementState, trade: TradeWithOrders): string {
  try {
    return ports.keyOf(trade)
  } catch {
    return ''
  }
}

export function enqueue(state: SettlementState, held: Held): void {
  held.place = 'queued'
  state.queue.push(held.trade.tradeId)
  state.turns.add(takerOf(held.trade))
}

/** Back into the queue, not to be sent before that time. */
export function requeue(state: SettlementState, tradeId: TradeId, notBeforeMs: number): void {
  const held = state.held.get(tradeId)
  if (held === undefined || held.place === 'queued' || held.place === 'ended') return
  held.notBeforeMs = notBeforeMs
  held.owed = undefined
  state.owed.delete(tradeId)
  enqueue(state, held)
}

export function sendNext(state: SettlementState, context: SettlementContext): void {
  let unmined = 0
  for (const { mined, ended, vanished } of state.batches.values()) {
    if (vanished) return
    if (!mined && !ended) unmined++
  }
  if (state.vanishing.length > 0) return
  if (unmined >= state.rules.inFlightMax || !mayBegin(state, 'submit', context.nowMs)) return
  const chosen = nextBatch(state, context.nowMs)
  if (chosen.length === 0 || !begun(state, 'submit', context.nowMs)) return
  watchMined(state)
  const trades: TradeToSettle[] = []
  takeOut(state, chosen, (held) => {
    held.place = 'sending'
    trades.push(held.trade)
  })
  context.pipe(
    state.ports.lane.submit(trades, { usedPermits: state.usedPermits }),
    (submission) => ({ type: 'Submitted', message: { tradeIds: chosen, submission } }),
    failure('submit', { tradeIds: chosen }),
  )
}

/** Takes the trades out of the queue, or of the groups where they are one; `each` says where they go. */
function takeOut(state: SettlementState, chosen: TradeId[], each: (held: Held) => void): void {
  const group = state.groups.indexOf(chosen)
  if (group >= 0) state.groups.splice(group, 1)
  else {
    const taken = new Set(chosen)
    keep(state.queue, (tradeId) => !taken.has(tradeId))
    endTurns(
      state,
      chosen.flatMap((tradeId) => state.held.get(tradeId)?.trade ?? []),
    )
  }
  for (const tradeId of chosen) {
    const held = state.held.get(tradeId)
    assert(held !== undefined, `${tradeId} is queued and not held`)
    each(held)
  }
}

/** The trades of the next batch; none when it is better to wait for more. */
function nextBatch(state: SettlementState, nowMs: number): TradeId[] {
  const ready = (tradeId: TradeId): boolean =>
    (state.held.get(tradeId)?.notBeforeMs ?? Number.POSITIVE_INFINITY) <= nowMs
  const group = state.groups.find((each) => each.every(ready))
  if (group !== undefined) return group
  const { batchMax, batchWaitMs } = state.rules
  const waiting: TradeToSettle[] = []
  let oldestMs = nowMs
  for (const tradeId of state.queue) {
    const held = state.held.get(tradeId)
    if (held === undefined || !ready(tradeId)) continue
    if (state.doubted.has(tradeId)) continue
    waiting.push(held.trade)
    oldestMs = Math.min(oldestMs, held.readySinceMs)
  }
  if (waiting.length < batchMax && nowMs - oldestMs < batchWaitMs) return []
  const sendable = onePermitEach(state, waiting)
  return inTurns(sendable, state.turns, batchMax).map(({ tradeId }) => tradeId)
}

function keep<T>(list: T[], wanted: (each: T) => boolean): void {
  let kept = 0
  for (const each of list) if (wanted(each)) list[kept++] = each
  list.length = kept
}

export function alone(state: SettlementState, tradeIds: TradeId[]): void {
  for (const tradeId of tradeIds) {
    const held = state.held.get(tradeId)
    if (held !== undefined) held.place = 'queued'
  }
  state.groups.push(tradeIds)
}

export function leaveQueue(state: SettlementState, { place, trade: { tradeId } }: Held): void {
  if (place !== 'queued') return
  keep(state.queue, (each) => each !== tradeId)
  for (const group of state.groups) keep(group, (each) => each !== tradeId)
  keep(state.groups, (group) => group.length > 0)
}
