/** Outside work that is tried again after a failure, later each time. */

import type { QuickContext, QuickMarketsState } from './quick-markets.ts'

export type Attempts = { pending: boolean; failures: number; nextAtMs: number }

export const fresh = (): Attempts => ({ pending: false, failures: 0, nextAtMs: 0 })

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function failed(
  state: QuickMarketsState,
  attempts: Attempts,
  context: QuickContext,
  why: string,
): void {
  const { retryMs, retryMsMax } = state.options
  attempts.pending = false
  const pauseMs = Math.min(retryMsMax, retryMs * 2 ** Math.min(attempts.failures, 20))
  attempts.failures++
  attempts.nextAtMs = context.nowMs + pauseMs
  if (why !== '') state.trouble = why
}
