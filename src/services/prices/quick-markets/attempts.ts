/** Pauses between attempts of work that runs outside the actor. The pauses grow with each failure. */

import { backoff } from '#domain/backoff.ts'
import type { Attempts, QuickContext, QuickMarketsState } from './state.ts'

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
  const pauseMs = backoff(retryMs, retryMsMax, attempts.failures)
  attempts.failures++
  attempts.nextAtMs = context.nowMs + pauseMs
  if (why !== '') state.trouble = why
}
