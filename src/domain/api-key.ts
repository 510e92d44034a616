/** An API key: a public key that speaks for a wallet. Its private half is known to its owner only. */

import type { Address } from './ids.ts'

export type ApiKey = {
  readonly id: string
  readonly address: Address
  /** What its owner calls it; may be empty. */
  readonly name: string
  /** Ed25519, 32 bytes as hex without 0x. */
  readonly publicKey: string
  readonly createdAtMs: number
  readonly expiresAtSec: number | null
  readonly revokedAtMs: number | null
}

/** The text a wallet signs to register a key; the address is written as in the request. */
export function registerMessage(service: string, address: string): string {
  return `Register API key for ${service}: ${address}`
}

/** The text a wallet signs to revoke one of its keys. */
export function revokeMessage(service: string, id: string, address: string): string {
  return `Revoke API key ${id} for ${service}: ${address}`
}
