/**
 * The EIP-712 digest of an order, which the trader signs and which is the order's identity. This file encodes
 * it by hand into fixed bytes, because a general encoder costs more than the signature check itself. Order
 * values are checked in `order.ts`, not here.
 *
 *   struct = keccak( typeHash | marketId | trader | side | outcome | price | size | nonce
 *                    | expiration | makerFeeRecipient )          ten words of 32 bytes
 *   digest = keccak( 0x19 0x01 | domainSeparator | struct )      66 bytes
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import { type Address, type OrderHash, UINT64_MAX, type Uint64 } from './ids.ts'
import type { Order } from './order.ts'
import { ORDER_TYPES, settlementDomain, typeString } from './typed-data.ts'

const ORDER_TYPE = typeString('Order', ORDER_TYPES)
const DOMAIN_TYPE =
  'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)'

/** Domain of a signature: the chain and its settlement contract. */
export type OrderDomain = { readonly chainId: number; readonly verifyingContract: Address }

/**
 * Hash function: returns 32 bytes. The caller may reuse the input buffer after the call, so the function must
 * not keep it.
 */
export type Keccak256 = (bytes: Uint8Array) => Uint8Array

/** Returns the digest of an order in a new array of 32 bytes. */
export type OrderHasher = (order: Order) => Uint8Array

/** Returns the digest of an order from the words that `writeOrderWords` wrote. Does not change the words. */
type OrderWordsHasher = (words: Uint8Array) => Uint8Array

const WORD = 32
/** Size in bytes of the nine fields of an order: one word of 32 bytes each, in the order in which they are signed. */
export const ORDER_WORDS_BYTES = 9 * WORD
/** Offset of the trader's 20-byte address in the words of an order. */
export const TRADER_OFFSET = WORD + 12
const STRUCT_BYTES = WORD + ORDER_WORDS_BYTES
const DIGEST_BYTES = 2 + 2 * WORD
const UINT32 = 2 ** 32

const HEX_DIGITS = '0123456789abcdef'
/** Value of each hex digit, by its character code; NOT_HEX for any other character. */
const NOT_HEX = 0xff
const DIGIT_VALUES = new Uint8Array(128).fill(NOT_HEX)
for (let value = 0; value < 16; value++) {
  DIGIT_VALUES[HEX_DIGITS.charCodeAt(value)] = value
  DIGIT_VALUES[HEX_DIGITS.toUpperCase().charCodeAt(value)] = value
}
const BYTE_TEXTS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/**
 * Returns a hasher for one domain. It reuses its buffers for every order, so only one thread may use it. Writing an
 * order never overwrites the zeros at the start of the words.
 */
export function makeOrderHasher(
  domain: OrderDomain,
  keccak256: Keccak256 = keccak_256,
): OrderHasher {
  const words = new DataView(new ArrayBuffer(ORDER_WORDS_BYTES))
  const bytes = new Uint8Array(words.buffer)
  const hashWords = makeOrderWordsHasher(domain, keccak256)
  return (order) => {
    writeOrderWords(words, 0, order)
    return hashWords(bytes)
  }
}

export function makeOrderWordsHasher(domain: OrderDomain, keccak256: Keccak256): OrderWordsHasher {
  const struct = new Uint8Array(STRUCT_BYTES)
  const digest = new Uint8Array(DIGEST_BYTES)
  struct.set(keccak256(utf8(ORDER_TYPE)), 0)
  digest[0] = 0x19
  digest[1] = 0x01
  digest.set(domainSeparator(domain, keccak256), 2)

  return (words) => {
    struct.set(words, WORD)
    digest.set(keccak256(struct), 2 + WORD)
    return keccak256(digest)
  }
}

/**
 * Writes an order at `at` as it is hashed: each field at the end of one 32-byte word. The zeros before a field are not
 * written, so the memory must contain zeros there. Throws if a value cannot be signed.
 */
export function writeOrderWords(view: DataView, at: number, order: Order): void {
  writeHex(view, at, order.marketId, 32)
  writeHex(view, at + TRADER_OFFSET, order.trader, 20)
  view.setUint8(at + 3 * WORD - 1, order.side)
  view.setUint8(at + 4 * WORD - 1, order.outcome)
  writeSafeInteger(view, at + 5 * WORD - 8, order.price)
  writeSafeInteger(view, at + 6 * WORD - 8, order.size)
  writeUint64(view, at + 7 * WORD - 8, order.nonce)
  writeUint64(view, at + 8 * WORD - 8, order.expiration)
  writeHex(view, at + 8 * WORD + 12, order.makerFeeRecipient, 20)
}

/** Returns the order's hash as lower-case `0x` hex, for callers that hash a few orders only. */
export function orderHash(order: Order, domain: OrderDomain): OrderHash {
  return bytesToHex(makeOrderHasher(domain)(order)) as OrderHash
}

function bytesToHex(bytes: Uint8Array): string {
  let text = '0x'
  for (let index = 0; index < bytes.length; index++) text += BYTE_TEXTS[bytes[index]!]
  return text
}

function domainSeparator(domain: OrderDomain, keccak256: Keccak256): Uint8Array {
  const { name, version } = settlementDomain(domain.chainId, domain.verifyingContract)
  const words = new Uint8Array(5 * WORD)
  words.set(keccak256(utf8(DOMAIN_TYPE)), 0)
  words.set(keccak256(utf8(name)), 1 * WORD)
  words.set(keccak256(utf8(version)), 2 * WORD)
  const view = new DataView(words.buffer)
  writeSafeInteger(view, 4 * WORD - 8, domain.chainId)
  writeHex(view, 4 * WORD + 12, domain.verifyingContract, 20)
  return keccak256(words)
}

/** Writes `0x` hex of exactly `length` bytes, and throws otherwise, so that no digest is made of incomplete input. */
function writeHex(target: DataView, offset: number, text: string, length: number): void {
  let bad = text.length === 2 + 2 * length && text.startsWith('0x') ? 0 : NOT_HEX
  for (let index = 0, at = 2; index < length; index++, at += 2) {
    const high = DIGIT_VALUES[text.charCodeAt(at)] ?? NOT_HEX
    const low = DIGIT_VALUES[text.charCodeAt(at + 1)] ?? NOT_HEX
    bad |= high | low
    target.setUint8(offset + index, (high << 4) | low)
  }
  if (bad > 15) throw new TypeError(`the value must be 0x and ${length} bytes in hex, not ${text}`)
}

function writeSafeInteger(view: DataView, offset: number, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`the value must be a uint64, not ${value}`)
  view.setUint32(offset, Math.floor(value / UINT32))
  view.setUint32(offset + 4, value % UINT32)
}

/**
 * Writes a decimal text as an unsigned 64-bit integer. Most nonces and expirations are safe integers; only the others
 * need a bigint.
 */
function writeUint64(view: DataView, offset: number, text: Uint64): void {
  if (text.length < 16) {
    writeSafeInteger(view, offset, Number(text))
    return
  }
  const value = BigInt(text)
  if (value > UINT64_MAX) throw new RangeError(`the value must be a uint64, not ${text}`)
  view.setBigUint64(offset, value)
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}
