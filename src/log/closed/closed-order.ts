/**
 * The 128 bytes of a closed order in its table. The layout never changes within a version of the table's rows.
 * Every field has a fixed place, so a hash is found without decoding the rest.
 *
 *   0 hash 32 | 32 market 32 | 64 trader 20 | 84 price u32 | 88 matches u32 | 92 reason u8
 *   93 side u8 | 94 outcome u8 | 95 zero u8 | 96 placedAtMs f64 | 104 expiresAtSec f64
 *   112 forgetAfterSec f64 | 120 size f64                                    (little-endian)
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { endianness } from 'node:os'
import { wordOfDigits } from '#domain/hex-digits.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { ClosedOrder } from '../event-log.ts'

export const CLOSED_ORDER_BYTES = 128

assert.equal(
  endianness(),
  'LE',
  'rows are written as 32-bit words, so the processor must be little-endian',
)

/** The table stores a reason as its index in this list, so add new reasons only at the end. */
const REASONS = ['filled', 'cancelled', 'expired', 'unfunded', 'self-trade', 'taken'] as const
assert.deepEqual(REASONS, ORDER_CLOSE_REASONS, 'REASONS must equal ORDER_CLOSE_REASONS')

export function encodeClosedOrders(orders: readonly ClosedOrder[]): Buffer<ArrayBuffer> {
  const bytes = Buffer.alloc(orders.length * CLOSED_ORDER_BYTES)
  const words = new Int32Array(bytes.buffer)
  const doubles = new Float64Array(bytes.buffer)
  let marketId: MarketId | undefined
  for (let index = 0; index < orders.length; index++) {
    const order = orders[index]!
    const at = index * CLOSED_ORDER_BYTES
    const word = at / 4
    const double = at / 8
    writeDigits(order.orderHash, words, word, 8)
    // Consecutive orders of a batch mostly belong to the same market. In that case the words of the market id are
    // copied from the previous order.
    if (order.marketId === marketId) words.copyWithin(word + 8, word - 24, word - 16)
    else writeDigits(order.marketId, words, word + 8, 8)
    marketId = order.marketId
    writeDigits(order.trader, words, word + 16, 5)
    assert(isUint32(order.price) && isUint32(order.matches), 'price and matches must be uint32')
    words[word + 21] = order.price
    words[word + 22] = order.matches
    bytes[at + 92] = REASONS.indexOf(order.reason)
    bytes[at + 93] = order.side
    bytes[at + 94] = order.outcome
    doubles[double + 12] = order.placedAtMs
    doubles[double + 13] = order.expiresAtSec
    doubles[double + 14] = order.forgetAfterSec
    doubles[double + 15] = order.size
  }
  return bytes
}

function isUint32(value: number): boolean {
  return value >>> 0 === value
}

/** Internal function that `Buffer.write` uses for Latin-1. Calling it directly is faster. */
type Latin1Buffer = Buffer<ArrayBuffer> & {
  latin1Write(text: string, at: number, length: number): number
}

/**
 * Buffer with room for the longest hex text. The text begins at byte 2, so that the digits after `0x` are aligned to
 * words.
 */
const text = Buffer.from(new ArrayBuffer(68)) as Latin1Buffer
const textWords = new Int32Array(text.buffer)

/** Writes hex digits as `count` words; the caller guarantees valid digits. */
function writeDigits(digits: string, words: Int32Array, at: number, count: number): void {
  assert(digits.length === 2 + 8 * count, 'hashes, ids and addresses have their length')
  text.latin1Write(digits, 2, digits.length)
  for (let word = 0; word < count; word++) {
    words[at + word] = wordOfDigits(textWords[1 + 2 * word]!, textWords[2 + 2 * word]!)
  }
}

export function decodeClosedOrder(bytes: Buffer, at: number): ClosedOrder {
  const reason = REASONS[bytes[at + 92] ?? REASONS.length]
  assert(reason !== undefined, 'a closed order has an unknown reason')
  return {
    orderHash: orderHashAt(bytes, at),
    marketId: `0x${bytes.toString('hex', at + 32, at + 64)}` as MarketId,
    trader: `0x${bytes.toString('hex', at + 64, at + 84)}` as Address,
    side: bytes[at + 93] as Side,
    outcome: bytes[at + 94] as Outcome,
    price: bytes.readUInt32LE(at + 84) as Price,
    size: bytes.readDoubleLE(at + 120) as Shares,
    reason,
    matches: bytes.readUInt32LE(at + 88),
    placedAtMs: bytes.readDoubleLE(at + 96),
    expiresAtSec: bytes.readDoubleLE(at + 104),
    forgetAfterSec: bytes.readDoubleLE(at + 112),
  }
}

/** Value of the reason field for a reopened order. */
const REOPENED = 255

/** Encodes entries that mark these orders as open again; they override older entries. */
export function encodeReopened(orders: readonly ClosedOrder[]): Buffer<ArrayBuffer> {
  const bytes = encodeClosedOrders(orders)
  for (let at = 0; at < bytes.length; at += CLOSED_ORDER_BYTES) bytes[at + 92] = REOPENED
  return bytes
}

export function isReopenedAt(bytes: Buffer, at: number): boolean {
  return bytes[at + 92] === REOPENED
}

/** A hash. `bytes` and `words` are two views of the same memory. */
export type HashKey = { readonly words: Int32Array; readonly bytes: Buffer }

function newHashKey(): HashKey {
  const words = new Int32Array(8)
  return { words, bytes: Buffer.from(words.buffer) }
}

/**
 * Reused results: `hashKeyOf` always returns `asked`, and `hashKeyAt` always returns `met`. A result is valid until the
 * next call of the same function.
 */
const asked = newHashKey()
const met = newHashKey()

export function hashKeyOf(hash: OrderHash): HashKey {
  writeDigits(hash, asked.words, 0, 8)
  return asked
}

export function hashKeyAt(bytes: Buffer, at: number): HashKey {
  bytes.copy(met.bytes, 0, at, at + 32)
  return met
}

export function orderHashAt(bytes: Buffer, at: number): OrderHash {
  return `0x${bytes.toString('hex', at, at + 32)}` as OrderHash
}

export function forgetAfterSecAt(bytes: Buffer, at: number): number {
  return bytes.readDoubleLE(at + 112)
}

/** Each thread has its own secret, because fingerprints exist only in the memory of one thread. */
const SECRET = randomInt(0, 2 ** 32)

/**
 * Returns the fingerprint of a hash for the index: the hash's first word, combined with its second word and a secret.
 * Without the secret, a trader could find many hashes with the same fingerprint within seconds. A lookup of any of
 * these hashes would then read the rows of all of them.
 */
function fingerprintOfWords(first: number, second: number): number {
  let mixed = Math.imul(second ^ SECRET, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77)
  return (first ^ mixed ^ (mixed >>> 13)) >>> 0
}

export function fingerprintAt(bytes: Buffer, at: number): number {
  return fingerprintOfWords(bytes.readInt32LE(at), bytes.readInt32LE(at + 4))
}

export function fingerprintOf(hash: OrderHash): number {
  text.latin1Write(hash, 2, hash.length)
  return fingerprintOfWords(
    wordOfDigits(textWords[1]!, textWords[2]!),
    wordOfDigits(textWords[3]!, textWords[4]!),
  )
}
