/** Jobs of a verify thread, with the fastest available implementations. */

import type { Address } from '#domain/ids.ts'
import type { PermitDomain } from './inspect-permit.ts'
import { loadKeccak } from './keccak.ts'
import { makePackedInspector } from './packed-orders.ts'
import { personalHash } from './personal-hash.ts'
import { loadRecovery, makeRecoverer } from './recover.ts'

/** Data that each thread of the pool receives at its start. */
export type VerifyWorkerData = {
  readonly domains: readonly PermitDomain[]
  /** Shared memory with the caller's batches of orders. */
  readonly memory: SharedArrayBuffer
}

export async function makeVerifyJobs({ domains, memory }: VerifyWorkerData) {
  const recovery = await loadRecovery()
  const keccak = loadKeccak()
  const recoverSigner = makeRecoverer(recovery, keccak)
  return {
    /** Inspects a batch of signed orders in shared memory; returns the flaws. */
    inspectPacked: makePackedInspector({ memory, domains, recovery, keccak }),

    /** Returns the signer of a text (personal_sign); null if the signature is invalid. */
    recoverMessageSigner(signed: {
      readonly message: string
      readonly signature: string
    }): Address | null {
      const signer = recoverSigner(personalHash(signed.message, keccak.keccak256), signed.signature)
      return typeof signer === 'string' ? signer : null
    },

    /** Returns the names of the implementations in use, which are logged at start. */
    engines: (): string => `${recovery.name}, ${keccak.name}`,
  }
}
