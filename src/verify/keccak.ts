/**
 * Keccak-256 for the hot path: the native one of the `keccak` package if it could be built, else the portable one. Both
 * return the same; only their speed differs.
 */

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { keccak_256 } from '@noble/hashes/sha3.js'
import type { Keccak256 } from '#domain/order-hash.ts'

export type KeccakEngine = {
  readonly name: 'native keccak' | 'portable keccak'
  readonly keccak256: Keccak256
}

/** The sponge behind the package's stream. The stream itself costs twice as much as the hash. */
type Sponge = {
  initialize(rateBits: number, capacityBits: number): void
  absorb(bytes: Uint8Array): void
  squeeze(length: number): Buffer
}

const RATE_BITS = 1088
const CAPACITY_BITS = 512

export const portableKeccak: KeccakEngine = { name: 'portable keccak', keccak256: keccak_256 }

export function loadKeccak(): KeccakEngine {
  return nativeKeccak() ?? portableKeccak
}

/** Undefined if the package is absent, was not built, or has an unknown version. */
export function nativeKeccak(): KeccakEngine | undefined {
  const sponge = loadSponge()
  if (sponge === undefined) return undefined
  const keccak256: Keccak256 = (bytes) => {
    sponge.initialize(RATE_BITS, CAPACITY_BITS)
    sponge.absorb(bytes)
    return sponge.squeeze(32)
  }
  // The sponge is not the package's public interface, so it is tested before use.
  for (const length of [0, 1, 135, 136, 137, 320]) {
    const bytes = new Uint8Array(length).fill(length % 251)
    assert.ok(Buffer.from(keccak_256(bytes)).equals(keccak256(bytes)), 'native keccak is wrong')
  }
  return { name: 'native keccak', keccak256 }
}

function loadSponge(): Sponge | undefined {
  try {
    const create: (algorithm: string) => { _state?: Partial<Sponge> } = createRequire(
      import.meta.url,
    )('keccak/bindings.js')
    const sponge = create('keccak256')._state
    const known =
      typeof sponge?.initialize === 'function' &&
      typeof sponge.absorb === 'function' &&
      typeof sponge.squeeze === 'function'
    return known ? (sponge as Sponge) : undefined
  } catch {
    // An optional dependency that cannot be loaded counts as absent.
    return undefined
  }
}
