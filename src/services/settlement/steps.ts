/**
 * Steps: kinds of asynchronous work, such as a read or a poll. Each kind of step runs at most once at a time, and
 * pauses longer after each failure.
 */

import { backoff } from '#domain/backoff.ts'
import { Fault } from '#domain/fault.ts'
import type { TradeId } from '#domain/ids.ts'
import type { SettlementProtocol, SettlementState, Step } from './state.ts'

const PAUSE_MS = 250
const PAUSE_MS_MAX = 15_000

export function mayBegin(state: SettlementState, step: Step, nowMs: number): boolean {
  return !state.steps.busy.has(step) && nowMs >= (state.steps.pauses.get(step)?.untilMs ?? 0)
}

export function tryBegin(state: SettlementState, step: Step, nowMs: number): boolean {
  if (!mayBegin(state, step, nowMs)) return false
  state.steps.busy.set(step, nowMs)
  return true
}

export function done(state: SettlementState, step: Step): void {
  state.steps.busy.delete(step)
  state.steps.pauses.delete(step)
}

export function pause(
  state: SettlementState,
  { step, why }: SettlementProtocol['Failed']['takes'],
  nowMs: number,
): void {
  const failures = (state.steps.pauses.get(step)?.failures ?? 0) + 1
  state.steps.busy.delete(step)
  const pauseMs = backoff(PAUSE_MS, PAUSE_MS_MAX, failures - 1)
  state.steps.pauses.set(step, { untilMs: nowMs + pauseMs, failures, why })
}

export function failure(
  step: Step,
  more: { tradeIds?: readonly TradeId[]; batch?: string } = {},
): (error: unknown) => { type: 'Failed'; message: SettlementProtocol['Failed']['takes'] } {
  return (error) => ({
    type: 'Failed',
    message: {
      step,
      why: error instanceof Error ? error.message : String(error),
      retry: error instanceof Fault && error.retryable,
      unexpected: !(error instanceof Fault),
      ...more,
    },
  })
}
