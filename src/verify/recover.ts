/**
 * Who signed a digest. Recovery on the curve is the most expensive step of an order by far, so it is
 * done by the system's library where there is one (`system-recovery.ts`), by the native `secp256k1` package where
 * that could be built, and by WebAssembly elsewhere; all give the same answers. A recoverer keeps scratch bytes and therefore belongs to one thread.
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

/** The signer of a 32-byte digest by a 65-byte signature in hex, or what is wrong with it. */
type Recoverer = (digest: Uint8Array, signature: string) => Address | SignatureFlaw

type HashRecoverer = (digest: Uint8Array, signature: SignatureBytes) => Uint8Array | SignatureFlaw

/** Where the address begins in the hash of a key. */
export const ADDRESS_OFFSET = 12
const NO_KEY_FITS: SignatureFlaw = { flaw: 'no key fits it' }

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

/** Undefined where the package is absent or was not built. */
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
        // Lengths and ranges were checked before: what it throws now is that no key fits.
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

/** The same for the bytes of a signature: the hash of the signer's key, whose end is the address. */
export function makeHashRecoverer(recovery: RecoveryEngine, keccak: KeccakEngine): HashRecoverer {
  return (digest, bytes) => {
    const recoveryId = recoveryIdIn(bytes)
    if (typeof recoveryId === 'object') return recoveryId
    const publicKey = recovery.recoverKey(digest, bytes.compact, recoveryId)
    // Without the byte that marks its form.
    return publicKey === undefined ? NO_KEY_FITS : keccak.keccak256(publicKey.subarray(1))
  }
}

/** Hex of the bytes from `start` on; without a copy where they are a Buffer, as native ones are. */
export function hex(bytes: Uint8Array, start = 0): string {
  return Buffer.isBuffer(bytes)
    ? bytes.toString('hex', start)
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex', start)
}

function loadNative(): NativeModule | undefined {
  try {
    return createRequire(import.meta.url)('secp256k1/bindings.js')
  } catch {
    // An optional dependency that cannot be loaded is one that is not there.
    return undefined
  }
}
