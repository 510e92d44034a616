/**
 * The Bloom filter in a block's header, over the addresses and topics of the block's logs. The filter may have false
 * positives, but no false negatives. If the filter does not match, the block certainly has no such log, so an empty
 * list of logs from a node is correct.
 */

import { type Hex, hexToBytes, keccak256 } from 'viem'

/** Returns whether a log with this address or topic may be in the block. */
export function mayContain(bloom: Hex, value: Hex): boolean {
  return hasBits(bloom, knownBitsOf(value))
}

/** Returns whether a log with these bits may be in the block. The caller has computed the bits with `bitsOf`. */
export function hasBits(bloom: Hex, bits: readonly number[]): boolean {
  return bits.every((bit) => {
    // A byte is two hex digits, and the last byte has the lowest bits.
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
