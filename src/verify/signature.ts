/**
 * Parses signatures and checks the rules that need no curve arithmetic. A signature has 65 bytes, and `v` is 0, 1, 27
 * or 28. `r` and `s` are in range, and `s` is in the lower half of its range. Without the last rule, each signature
 * would have a second valid form for the same key: `s` replaced by the order of the curve minus `s`, and the other `v`.
 */

/** Reason why a signature is invalid. The text is the end of a sentence for the client; callers add its beginning. */
export type SignatureFlaw = {
  readonly flaw: string
  /** True if the only flaw is that no key matches. A contract account may accept such a signature. */
  readonly keyless?: true
}

/** Bytes of the last parsed signature: `r` and `s` in the first 64 bytes, `v` in the last byte. */
export type SignatureBytes = {
  readonly all: Buffer
  readonly compact: Uint8Array
}

const SIGNATURE_CHARS = 132
export const SIGNATURE_BYTES = 65
const V_OFFSET = 64

const ORDER = Buffer.from('fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141', 'hex')
const HALF_ORDER = Buffer.from(
  '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0',
  'hex',
)
const ZERO = Buffer.alloc(32)
/** Last 32 bytes of every signature of an account that is not deployed yet (ERC-6492). */
const UNDEPLOYED = '6492'.repeat(16)

export function makeSignatureBytes(): SignatureBytes {
  const all = Buffer.alloc(SIGNATURE_BYTES)
  return { all, compact: all.subarray(0, V_OFFSET) }
}

/** Parses a signature into `into`. Returns the recovery id, or a flaw if the signature is invalid. */
export function readSignature(signature: string, into: SignatureBytes): 0 | 1 | SignatureFlaw {
  if (!decodeSignature(signature, into.all, 0)) {
    if (signature.toLowerCase().endsWith(UNDEPLOYED)) {
      const flaw =
        'the account is not deployed (ERC-6492): deploy the account first, then send its 65-byte signature'
      return { flaw }
    }
    return {
      flaw: `the signature must be 0x and 130 hex digits (65 bytes), not ${described(signature)}`,
    }
  }
  return recoveryIdIn(into)
}

/** Decodes a signature into `into` at offset `at`. Returns whether the signature is well-formed. */
export function decodeSignature(signature: string, into: Buffer, at: number): boolean {
  // The hex decoder stops at the first invalid character. So if it writes all `SIGNATURE_BYTES`, it accepted every
  // character. But it reads only the low byte of each character, so the text must also be ASCII. In UTF-8, only an
  // ASCII text has as many bytes as characters.
  return (
    signature.length === SIGNATURE_CHARS &&
    signature.startsWith('0x') &&
    Buffer.byteLength(signature, 'utf8') === SIGNATURE_CHARS &&
    into.write(signature.slice(2), at, SIGNATURE_BYTES, 'hex') === SIGNATURE_BYTES
  )
}

/** Returns the recovery id of a decoded signature, or a flaw if a value is out of range. */
export function recoveryIdIn({ all }: SignatureBytes): 0 | 1 | SignatureFlaw {
  const recoveryId = recoveryIdOf(all[V_OFFSET]!)
  if (recoveryId === undefined) {
    return { flaw: `v must be 0, 1, 27 or 28, not ${all[V_OFFSET]}` }
  }
  if (isZero(all, 0) || compare(all, 0, ORDER) >= 0) {
    return { flaw: 'r must be above zero and below the order of the curve' }
  }
  if (isZero(all, 32) || compare(all, 32, ORDER) >= 0) {
    return { flaw: 's must be above zero and below the order of the curve' }
  }
  if (compare(all, 32, HALF_ORDER) > 0) {
    return {
      flaw:
        's must be in the lower half of its range: replace s by the order of the curve minus s, and switch v ' +
        'between 27 and 28, or between 0 and 1',
    }
  }
  return recoveryId
}

/** Returns the stored form of a valid signature: lower case, v 27 or 28. */
export function normaliseSignature(signature: string): string {
  const v = signature.slice(-2).toLowerCase()
  const body = signature.slice(0, -2).toLowerCase()
  return `${body}${v === '00' || v === '1b' ? '1b' : '1c'}`
}

function recoveryIdOf(v: number): 0 | 1 | undefined {
  if (v === 27 || v === 0) return 0
  if (v === 28 || v === 1) return 1
  return undefined
}

function described(signature: string): string {
  if (signature.length === SIGNATURE_CHARS) return 'other characters'
  return signature.startsWith('0x')
    ? `${signature.length - 2} digits`
    : `${signature.length} characters without 0x`
}

/**
 * Compares the 32 bytes at `offset` with a bound. The first bytes nearly always differ. Comparing them here saves the
 * call of `Buffer.compare`, which is native code.
 */
function compare(bytes: Buffer, offset: number, bound: Buffer): number {
  const difference = bytes[offset]! - bound[0]!
  return difference !== 0 ? difference : bytes.compare(bound, 0, 32, offset, offset + 32)
}

function isZero(bytes: Buffer, offset: number): boolean {
  return bytes[offset] === 0 && bytes.compare(ZERO, 0, 32, offset, offset + 32) === 0
}
