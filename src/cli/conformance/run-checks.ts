/** Runs the checks. If a check fails, the remaining checks still run. */

import { AUTH_CHECKS } from './auth-checks.ts'
import type { Check } from './check.ts'
import { EVENT_CHECKS } from './event-checks.ts'
import { MARKET_CHECKS } from './market-checks.ts'
import { MATCHING_CHECKS } from './matching-checks.ts'
import { Mismatch, Skipped } from './mismatch.ts'
import { ORDER_CHECKS } from './order-checks.ts'
import { PRICE_CHECKS } from './price-checks.ts'
import { SERVICE_CHECKS } from './service-checks.ts'
import { STREAM_CHECKS } from './stream-checks.ts'
import type { World } from './world.ts'

export type CheckResult = {
  readonly id: string
  readonly says: string
  readonly result: 'ok' | 'failed' | 'skipped'
  /** The reason why the check failed or was skipped. */
  readonly why?: string
  readonly expected?: string
  readonly seen?: string
}

/** The last checks revoke the API key that the other checks use. */
const CHECKS: readonly Check[] = [
  ...SERVICE_CHECKS,
  ...MARKET_CHECKS,
  ...EVENT_CHECKS,
  ...MATCHING_CHECKS,
  ...PRICE_CHECKS,
  ...ORDER_CHECKS,
  ...STREAM_CHECKS,
  ...AUTH_CHECKS,
]

export async function* runChecks(
  world: World,
  { only, signal }: { readonly only: readonly string[]; readonly signal: AbortSignal },
): AsyncGenerator<CheckResult, void, undefined> {
  for (const check of CHECKS) {
    if (only.length > 0 && !only.some((name) => check.id.startsWith(name))) continue
    if (signal.aborted) return
    yield resultOf(
      check,
      await check.run(world).then(
        () => undefined,
        (error: unknown) => error,
      ),
    )
  }
}

function resultOf({ id, says }: Check, error: unknown): CheckResult {
  if (error === undefined) return { id, says, result: 'ok' }
  if (error instanceof Skipped) return { id, says, result: 'skipped', why: error.message }
  if (error instanceof Mismatch) {
    const { message: why, expected, seen } = error
    return { id, says, result: 'failed', why, expected, seen }
  }
  const why = error instanceof Error ? error.message.split('\n')[0] : String(error)
  return { id, says, result: 'failed', why: `the check could not be completed: ${why}` }
}
