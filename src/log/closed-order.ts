/**
 * The 128 bytes of a closed order in its table. The layout never changes within a version of the
 * table's rows; every field is at a fixed place, so that a hash is found without decoding the rest.
 *
 *   0 hash 32 | 32 market 32 | 64 trader 20 | 84 price u32 | 88 matches u32 | 92 reason u8
 *   93 side u8 | 94 outcome u8 | 95 zero u8 | 96 placedAtMs f64 | 104 expiresAtSec f64
 *   112 forgetAfterSec f64 | 120 size f64                                    (little-endian)
 */

import assert from 'node:assert/strict'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { ClosedOrder } from './event-log.ts'

export const CLOSED_ORDER_BYTES = 128

/** Their place in this list is what the table stores: new ones go to the end. */
const REASONS = ['filled', 'cancelled', 'expired', 'unfunded', 'self-trade'] as const
assert.deepEqual(REASONS, ORDER_CLOSE_REASONS, 'the stored reasons are those of the domain')

export function encodeClosedOrders(orders: readonly ClosedOrder[]): Buffer<ArrayBuffer> {
  const bytes = Buffer.alloc(orders.length * CLOSED_ORDER_BYTES)
  let at = 0
  for (const order of orders) {
    writeDigits(order.orderHash, bytes, at)
    writeDigits(order.marketId, bytes, at + 32)
    writeDigits(order.trader, bytes, at + 64)
    bytes.writeUInt32LE(order.price, at + 84)
    bytes.writeUInt32LE(order.matches, at + 88)
    bytes[at + 92] = REASONS.indexOf(order.reason)
    bytes[at + 93] = order.side
    bytes[at + 94] = order.outcome
    bytes.writeDoubleLE(order.placedAtMs, at + 96)
    bytes.writeDoubleLE(order.expiresAtSec, at + 104)
    bytes.writeDoubleLE(order.forgetAfterSec, at + 112)
    bytes.writeDoubleLE(order.size, at + 120)
    at += CLOSED_ORDER_BYTES
  }
  return bytes
}

/** What `write` comes down to for this encoding, without its detours. */
type Latin1Buffer = Buffer<ArrayBuffer> & {
  latin1Write(text: string, at: number, length: number): number
}

/** Room for the text of the longest, and the same as pairs of characters. */
const text = Buffer.from(new ArrayBuffer(66)) as Latin1Buffer
const pairs = new Uint16Array(text.buffer)

/** The byte that a pair of hexadecimal digits says. */
const BYTE_OF_PAIR = new Uint8Array(2 ** 16)
for (let byte = 0; byte < 256; byte++) {
  text.write(byte.toString(16).padStart(2, '0'), 'latin1')
  BYTE_OF_PAIR[pairs[0]!] = byte
}

/** Writes the bytes that the digits after `0x` say, lower-case ones, which it trusts. */
function writeDigits(digits: string, bytes: Buffer, at: number): void {
  const count = (digits.length - 2) >> 1
  text.latin1Write(digits, 0, digits.length)
  for (let byte = 0; byte < count; byte++) bytes[at + byte] = BYTE_OF_PAIR[pairs[1 + byte]!]!
}

export function decodeClosedOrder(bytes: Buffer, at: number): ClosedOrder {
  const reason = REASONS[bytes[at + 92] ?? REASONS.length]
  assert(reason !== undefined, 'a checked row has a known reason')
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

export function orderHashAt(bytes: Buffer, at: number): OrderHash {
  return `0x${bytes.toString('hex', at, at + 32)}` as OrderHash
}

export function forgetAfterSecAt(bytes: Buffer, at: number): number {
  return bytes.readDoubleLE(at + 112)
}

/** The first four bytes of the hash, by which the index knows it. */
export function fingerprintAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at)
}

export function fingerprintOf(hash: OrderHash): number {
  return Number.parseInt(hash.slice(2, 10), 16)
}
