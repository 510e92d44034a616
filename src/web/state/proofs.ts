/** Proofs that the public log contains the account's orders. The page itself verifies the proofs. */

import { signal } from '@preact/signals'
import type { VerifiedProof } from '#client/verify-log.ts'
import { reader } from './exchange.ts'
import { showError } from './toasts.ts'

type Proof = 'checking' | Pick<VerifiedProof, 'index' | 'size' | 'origin'>

/** Proofs by order hash, including proofs that are being verified. */
export const proofs = signal<ReadonlyMap<string, Proof>>(new Map())
/** True if the exchange publishes its log; undefined until the exchange has answered. */
export const hasPublicLog = signal<boolean | undefined>(undefined)

/** Maximum number of remembered proofs; the oldest are dropped. */
const PROOFS_KEPT_MAX = 1_000

/**
 * Minimum time between two requests for the list of logs. After an empty list the page asks again, because an exchange
 * that has just started has no log yet.
 */
const ASK_AGAIN_MS = 10_000

let askedAtMs = Number.NEGATIVE_INFINITY

/**
 * Requests the list of logs to find out whether the log is public. Does nothing if the log is already known to be
 * public, or if the last request was less than `ASK_AGAIN_MS` ago.
 */
export function askForPublicLog(): void {
  const nowMs = performance.now()
  if (hasPublicLog.peek() === true || nowMs - askedAtMs < ASK_AGAIN_MS) return
  askedAtMs = nowMs
  reader.transparency.logs().then(
    (logs) => {
      hasPublicLog.value = logs.length > 0
    },
    // If the request fails, the page shows the orders without proofs until a later request succeeds.
    () => {},
  )
}

/** Requests the proof of an order and verifies it. */
export async function proveOrder(orderHash: string): Promise<void> {
  if (proofs.value.has(orderHash)) return
  keep(orderHash, 'checking')
  try {
    const { index, size, origin } = await reader.transparency.proveOrder(orderHash)
    keep(orderHash, { index, size, origin })
  } catch (error) {
    keep(orderHash, undefined)
    showError(error)
  }
}

function keep(id: string, proof: Proof | undefined): void {
  const next = new Map(proofs.value)
  if (proof === undefined) next.delete(id)
  else next.set(id, proof)
  const [oldest] = next.keys()
  if (next.size > PROOFS_KEPT_MAX && oldest !== undefined) next.delete(oldest)
  proofs.value = next
}
