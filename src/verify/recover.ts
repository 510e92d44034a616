/**
 * Recovers the signer of a digest. This recovery is by far the most expensive step in checking an order. So the fastest
 * available implementation is used: first the system's library (`system-recovery.ts`), then the native `secp256k1`
 * package, then WebAssembly. All implementations return the same results. Each recoverer has scratch memory, so it must
 * be used by one thread only.
 */

import { createRequire } from 'node:module'
import type { Address } from '#domain/ids.ts'
import type { KeccakEngine } from './keccak.ts'
import type { RecoveryEngine } from './recovery-engine.ts'
import {
  makeSignatureBytes,
  readSignature,
  recoveryIdIn,
  type SignatureBytes,
  type SignatureFlaw,
} from './signature.ts'
import { systemRecovery } from './system-recovery.ts'

/**
 * Returns the address that signed a 32-byte digest with a 65-byte signature in hex. Returns a flaw if the signature is
 * invalid.
 */
type Recoverer = (digest: Uint8Array, signature: string) => Address | SignatureFlaw

type HashRecoverer = (digest: Uint8Array, signature: SignatureBytes) => Uint8Array | SignatureFlaw

/** Offset of the address in the hash of a key. */
export const ADDRESS_OFFSET = 12
const NO_KEY_FITS: SignatureFlaw = {
  flaw: 'no public key can be recovered from the signature',
  keyless: true,
}

type NativeModule = {
  ecdsaRecover(
    compact: Uint8Array,
    recoveryId: number,
    digest: Uint8Array,
    compressed: boolean,
    output: Uint8Array,
  ): Uint8Array
}

const PUBLIC_KEY_BYTES = 65

export async function loadRecovery(): Promise<RecoveryEngine> {
  return systemRecovery() ?? nativeRecovery() ?? (await wasmRecovery())
}

/** Returns the native implementation; undefined if the `secp256k1` package is absent or was not built. */
export function nativeRecovery(): RecoveryEngine | undefined {
  const native = loadNative()
  if (native === undefined) return undefined
  const publicKey = Buffer.alloc(PUBLIC_KEY_BYTES)
  return {
    name: 'native secp256k1',
    recoverKey: (digest, compact, recoveryId) => {
      try {
        return native.ecdsaRecover(compact, recoveryId, digest, false, publicKey)
      } catch {
        // The caller has checked lengths and ranges, so an error means that no key matches the signature.
        return undefined
      }
    },
  }
}

export async function wasmRecovery(): Promise<RecoveryEngine> {
  const { instantiateSecp256k1 } = await import('@bitauth/libauth')
  const wasm = await instantiateSecp256k1()
  return {
    name: 'wasm secp256k1',
    recoverKey: (digest, compact, recoveryId) => {
      const publicKey = wasm.recoverPublicKeyUncompressed(compact, recoveryId, digest)
      return typeof publicKey === 'string' ? undefined : publicKey
    },
  }
}

export function makeRecoverer(recovery: RecoveryEngine, keccak: KeccakEngine): Recoverer {
  const bytes = makeSignatureBytes()
  const recoverHash = makeHashRecoverer(recovery, keccak)
  return (digest, signature) => {
    const recoveryId = readSignature(signature, bytes)
    if (typeof recoveryId === 'object') return recoveryId
    const signer = recoverHash(digest, bytes)
    return 'flaw' in signer ? signer : (`0x${hex(signer, ADDRESS_OFFSET)}` as Address)
  }
}

/**
 * Makes a recoverer for signatures given as bytes. It returns the hash of the signer's public key, whose last 20 bytes
 * are the address.
 */
export function makeHashRecoverer(recovery: RecoveryEngine, keccak: KeccakEngine): HashRecoverer {
  return (digest, bytes) => {
    const recoveryId = recoveryIdIn(bytes)
    if (typeof recoveryId === 'object') return recoveryId
    const publicKey = recovery.recoverKey(digest, bytes.compact, recoveryId)
    // The hash does not cover the first byte of the public key, which is a prefix.
    return publicKey === undefined ? NO_KEY_FITS : keccak.keccak256(publicKey.subarray(1))
  }
}

/** Returns the bytes from `start` on as hex digits. */
export function hex(bytes: Uint8Array, start = 0): string {
  return Buffer.isBuffer(bytes)
    ? bytes.toString('hex', start)
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex', start)
}

function loadNative(): NativeModule | undefined {
  try {
    return createRequire(import.meta.url)('secp256k1/bindings.js')
  } catch {
    // An optional dependency that cannot be loaded counts as absent.
    return undefined
  }
}
