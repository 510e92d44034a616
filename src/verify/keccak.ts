/**
 * Two implementations of Keccak-256: WebAssembly for the hot path, and the slower portable one of `@noble/hashes`,
 * which needs no scratch memory. Both return the same hashes.
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import type { Keccak256 } from '#domain/order-hash.ts'
import { makeWasmKeccak, WASM_KECCAK_MAX } from './wasm-keccak.ts'

export type KeccakEngine = {
  readonly name: 'wasm keccak' | 'portable keccak'
  readonly keccak256: Keccak256
}

export const portableKeccak: KeccakEngine = { name: 'portable keccak', keccak256: keccak_256 }

/** Returns the fastest implementation. Each instance has scratch memory, so it must be used by one thread only. */
export function loadKeccak(): KeccakEngine {
  const hash = makeWasmKeccak()
  return {
    name: 'wasm keccak',
    keccak256: (bytes) => (bytes.length > WASM_KECCAK_MAX ? keccak_256(bytes) : hash(bytes)),
  }
}
