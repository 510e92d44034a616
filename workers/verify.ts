/**
 * A thread of the verify pool: composition only. `workerData` is `VerifyWorkerData`; the pool calls
 * the exports by their names.
 */

import { workerData } from 'node:worker_threads'
import type { Address } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { createOrderInspector } from '#verify/inspect-orders.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { personalHash } from '#verify/personal-hash.ts'
import { createRecoverer, loadRecovery } from '#verify/recover.ts'

export type VerifyWorkerData = { readonly domains: readonly OrderDomain[] }

const { domains } = workerData as VerifyWorkerData
const recovery = await loadRecovery()
const keccak = loadKeccak()

/** Takes a batch of signed orders, answers what is found, in the same order. */
export const inspectOrders = createOrderInspector(domains, recovery, keccak)

/** Which implementations are in use, for a line at start. */
export function engines(): string {
  return `${recovery.name}, ${keccak.name}`
}

const keccak256 = keccak.keccak256
const recoverSigner = createRecoverer(recovery, keccak)

/** Who signed a text as wallets do (personal_sign); null when the signature is none. */
export function recoverMessageSigner({
  message,
  signature,
}: {
  readonly message: string
  readonly signature: string
}): Address | null {
  const signer = recoverSigner(personalHash(message, keccak256), signature)
  return typeof signer === 'string' ? signer : null
}
