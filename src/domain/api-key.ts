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

/** What a key's id looks like; whatever else is named, is not registered. */
export const API_KEY_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The text a wallet signs to register a key; the address is written as in the request. */
export function registerMessage(service: string, address: string): string {
  return `Register API key for ${service}: ${address}`
}

/** The text a wallet signs to revoke one of its keys. */
export function revokeMessage(service: string, id: string, address: string): string {
  return `Revoke API key ${id} for ${service}: ${address}`
}
