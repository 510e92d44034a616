/** What a thread of the verify pool can do, with the fastest implementations that there are. */

import type { Address } from '#domain/ids.ts'
import type { PermitDomain } from './inspect-permit.ts'
import { loadKeccak } from './keccak.ts'
import { makePackedInspector } from './packed-orders.ts'
import { personalHash } from './personal-hash.ts'
import { loadRecovery, makeRecoverer } from './recover.ts'

/** What the pool hands to its threads. */
export type VerifyWorkerData = {
  readonly domains: readonly PermitDomain[]
  /** Where the asker lays batches of orders out. */
  readonly memory: SharedArrayBuffer
}

export async function makeVerifyJobs({ domains, memory }: VerifyWorkerData) {
  const recovery = await loadRecovery()
  const keccak = loadKeccak()
  const recoverSigner = makeRecoverer(recovery, keccak)
  return {
    /** Looks at a batch of signed orders where it lies; answers what is wrong. */
    inspectPacked: makePackedInspector({ memory, domains, recovery, keccak }),

    /** Who signed a text as wallets do (personal_sign); null when the signature is none. */
    recoverMessageSigner(signed: {
      readonly message: string
      readonly signature: string
    }): Address | null {
      const signer = recoverSigner(personalHash(signed.message, keccak.keccak256), signed.signature)
      return typeof signer === 'string' ? signer : null
    },

    /** Which implementations are in use, for a line at start. */
    engines: (): string => `${recovery.name}, ${keccak.name}`,
  }
}
