/**
 * The Bloom filter in a block's header, over the addresses and topics of the block's logs. The filter may have false
 * positives, but no false negatives. If an address or topic does not match, the block has no log with it. In this case,
 * a node that returns no such log has omitted nothing.
 */

import { type Hex, hexToBytes, keccak256 } from 'viem'

/** Returns whether a log with this address or topic may be in the block. */
export function mayContain(bloom: Hex, value: Hex): boolean {
  return hasBits(bloom, knownBitsOf(value))
}

/** Returns whether the block may have a log with a certain address or topic. `bits` are its bits from `bitsOf`. */
export function hasBits(bloom: Hex, bits: readonly number[]): boolean {
  return bits.every((bit) => {
    // A hex digit holds four bits. The last digit holds the lowest bits, 0 to 3.
    const digit = bloom[bloom.length - 1 - (bit >> 2)] ?? '0'
    return (Number.parseInt(digit, 16) & (1 << (bit & 3))) !== 0
  })
}

/** Returns the numbers of the bits that an address or topic sets in a block's filter. */
export function bitsOf(value: Hex): readonly number[] {
  const hash = hexToBytes(keccak256(hexToBytes(value)))
  return [0, 2, 4].map((at) => (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) & 2_047)
}

/** Cache of the bits of addresses and topics, because the same addresses and topics are checked for every block. */
const known = new Map<Hex, readonly number[]>()
const KNOWN_MAX = 4_096

function knownBitsOf(value: Hex): readonly number[] {
  const before = known.get(value)
  if (before !== undefined) return before
  const bits = bitsOf(value)
  if (known.size >= KNOWN_MAX) known.clear()
  known.set(value, bits)
  return bits
}
