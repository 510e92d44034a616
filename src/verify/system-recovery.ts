/**
 * Recovers public keys with the system's libsecp256k1. It is years newer than the version in the `secp256k1` package,
 * and about a quarter faster. The Debian package is `libsecp256k1-1`, or the same name with a later number. If the
 * library is missing or fails its test, another implementation is used (`recover.ts`).
 *
 * The library reads and writes raw memory. So each buffer must have at least the length that the library expects.
 */

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import type { RecoveryEngine } from './recovery-engine.ts'

/** File names of the library. The version number may change although the functions used here stay the same. */
const LIBRARIES = [6, 5, 2, 1].map((number) => `libsecp256k1.so.${number}`)

/**
 * Flags of the library. `CONTEXT_VERIFY` makes a context that can verify, which older versions need. `UNCOMPRESSED`
 * selects the uncompressed form of a public key.
 */
const CONTEXT_VERIFY = 0x101
const UNCOMPRESSED = 2

const DIGEST_BYTES = 32
const COMPACT_BYTES = 64
const PUBLIC_KEY_BYTES = 65
/**
 * Length of the buffers for signatures and keys in the library's internal form. It is larger than necessary: the
 * library needs 65 bytes for a signature and 64 bytes for a key.
 */
const FORM_BYTES = 128

type Library = { func(declaration: string): (...values: never[]) => unknown }
type Koffi = { load(path: string): Library }
type Context = object
type Calls = {
  readonly create: (flags: number) => Context
  readonly parse: (context: Context, form: Buffer, compact: Uint8Array, id: number) => number
  readonly recover: (context: Context, key: Buffer, form: Buffer, digest: Uint8Array) => number
  /** Writes a public key as bytes. Parameters: context, output, output length, key, flags. */
  readonly serialize: (...values: [Context, Buffer, Buffer, Buffer, number]) => number
}

/** Returns an engine with the system's library; undefined if the library is missing or fails its test. */
export function systemRecovery(): RecoveryEngine | undefined {
  const calls = load()
  if (calls === undefined) return undefined
  const { create, parse, recover, serialize } = calls
  const context = create(CONTEXT_VERIFY)
  const form = Buffer.alloc(FORM_BYTES)
  const key = Buffer.alloc(FORM_BYTES)
  const publicKey = Buffer.alloc(PUBLIC_KEY_BYTES)
  /** A `size_t`: the capacity of `publicKey` before the call, and the written length after it. */
  const length = Buffer.alloc(8)
  const engine: RecoveryEngine = {
    name: 'system secp256k1',
    recoverKey(digest, compact, recoveryId) {
      assert(digest.length === DIGEST_BYTES && compact.length === COMPACT_BYTES, 'lengths')
      if (parse(context, form, compact, recoveryId) !== 1) return undefined
      if (recover(context, key, form, digest) !== 1) return undefined
      length.writeUInt32LE(PUBLIC_KEY_BYTES, 0)
      serialize(context, publicKey, length, key, UNCOMPRESSED)
      return publicKey
    },
  }
  return works(engine) ? engine : undefined
}

function load(): Calls | undefined {
  let koffi: Koffi
  try {
    koffi = createRequire(import.meta.url)('koffi')
  } catch {
    // An optional dependency that cannot be loaded counts as absent.
    return undefined
  }
  for (const name of LIBRARIES) {
    try {
      const library = koffi.load(name)
      return {
        create: library.func('void *secp256k1_context_create(unsigned int flags)'),
        parse: library.func(
          'int secp256k1_ecdsa_recoverable_signature_parse_compact(void *, uint8_t *, uint8_t *, int)',
        ),
        recover: library.func(
          'int secp256k1_ecdsa_recover(void *, uint8_t *, uint8_t *, uint8_t *)',
        ),
        serialize: library.func(
          'int secp256k1_ec_pubkey_serialize(void *, uint8_t *, uint8_t *, uint8_t *, unsigned int)',
        ),
      } as Calls
    } catch {
      // This library is missing, or was built without public key recovery. Try the next file name.
    }
  }
  return undefined
}

/**
 * The generator point of the curve. With private key 1 and nonce 1, the signature of digest 1 has `r` = x and `s` = x +
 * 1. The public key is the generator itself.
 */
const GENERATOR = {
  x: '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  y: '483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8',
}

/** Returns whether the library recovers a known key. A matching file name does not prove that the library works. */
function works(engine: RecoveryEngine): boolean {
  const compact = Buffer.from(GENERATOR.x + GENERATOR.x, 'hex')
  compact[COMPACT_BYTES - 1]! += 1
  const digest = Buffer.alloc(DIGEST_BYTES)
  digest[DIGEST_BYTES - 1] = 1
  const found = engine.recoverKey(digest, compact, 0)
  const expected = Buffer.from(`04${GENERATOR.x}${GENERATOR.y}`, 'hex')
  return found !== undefined && expected.equals(found)
}
