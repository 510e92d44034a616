/** An API key: a public key that acts for a wallet. Only the owner of the API key has the private key. */

import type { Address } from './ids.ts'

export type ApiKey = {
  readonly id: string
  readonly address: Address
  /** Name chosen by the key's owner; may be empty. */
  readonly name: string
  /** Ed25519 public key: 32 bytes as hex without 0x. */
  readonly publicKey: string
  readonly createdAtMs: number
  readonly expiresAtSec: number | null
  readonly revokedAtMs: number | null
}

/** Format of a key's id. A text in another format is never the id of a key. */
export const API_KEY_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Returns the text that a wallet signs to register a key; the address is written as in the request. */
export function registerMessage(service: string, address: string): string {
  return `Register API key for ${service}: ${address}`
}

/** Returns the text that a wallet signs to revoke one of its keys. */
export function revokeMessage(service: string, id: string, address: string): string {
  return `Revoke API key ${id} for ${service}: ${address}`
}
