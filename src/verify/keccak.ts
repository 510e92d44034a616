/**
 * Keccak-256: in WebAssembly for the hot path, and the portable one of `@noble/hashes`, which is slower and needs no
 * memory of its own. Both return the same.
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import type { Keccak256 } from '#domain/order-hash.ts'
import { makeWasmKeccak, WASM_KECCAK_MAX } from './wasm-keccak.ts'

export type KeccakEngine = {
  readonly name: 'wasm keccak' | 'portable keccak'
  readonly keccak256: Keccak256
}

export const portableKeccak: KeccakEngine = { name: 'portable keccak', keccak256: keccak_256 }

/** Returns the fastest implementation. It has scratch memory and therefore belongs to one thread. */
export function loadKeccak(): KeccakEngine {
  const hash = makeWasmKeccak()
  return {
    name: 'wasm keccak',
    keccak256: (bytes) => (bytes.length > WASM_KECCAK_MAX ? keccak_256(bytes) : hash(bytes)),
  }
}
