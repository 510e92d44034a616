/**
 * Checks the signature of an order's permit. The signed digest must be the one that the stablecoin's contract computes,
 * with the order's trader as owner and the settlement contract as spender. Accepts exactly the signatures that this
 * contract accepts: `s` in the lower half of its range, and `v` 27 or 28.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address } from '#domain/ids.ts'
import type { PermitSignature } from '#domain/order.ts'
import { PERMIT_TYPES, type Stablecoin, stablecoinDomain } from '#domain/typed-data.ts'
import type { KeccakEngine } from './keccak.ts'
import { hex, makeRecoverer } from './recover.ts'
import type { RecoveryEngine } from './recovery-engine.ts'
import { makeTypedDataHasher } from './typed-data-hash.ts'

/** Returns the error in a permit's signature; null if the owner signed the permit. */
export type PermitInspector = (owner: Address, permit: PermitSignature) => string | null

/** A chain's settlement contract, and the stablecoin whose permits the contract uses. */
export type PermitDomain = {
  readonly chainId: number
  readonly verifyingContract: Address
  readonly stablecoin: Stablecoin
}

export function makePermitInspector(
  { chainId, verifyingContract: spender, stablecoin }: PermitDomain,
  recovery: RecoveryEngine,
  keccak: KeccakEngine,
): PermitInspector {
  const domain = stablecoinDomain(chainId, stablecoin)
  const typed = { domain, primaryType: 'Permit', types: PERMIT_TYPES }
  const hashPermit = makeTypedDataHasher(typed, keccak.keccak256)
  const recover = makeRecoverer(recovery, keccak)

  return (owner, { value, nonce, deadline, v, r, s }) => {
    const digest = hashPermit({ owner, spender, value, nonce, deadline })
    const signer = recover(digest, `${r}${s.slice(2)}${v.toString(16)}`)
    if (signer === owner) return null
    const found =
      typeof signer === 'object'
        ? signer.flaw
        : `the recovered signer is ${checksumAddress(signer)}, not ${checksumAddress(owner)}`
    return (
      `permitSignature must be signed by the trader: ${found}; the server computed the digest 0x${hex(digest)} for ` +
      `${domain.name} version ${domain.version} at ${checksumAddress(stablecoin.address)} and the spender ` +
      `${checksumAddress(spender)}`
    )
  }
}
