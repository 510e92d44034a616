/**
 * The filter in a block's header over the addresses and topics of its logs: what it denies is not
 * there, what it affirms may be. It tells whether an empty answer about a block can be true.
 */

import { type Hex, hexToBytes, keccak256 } from 'viem'

/** Whether a log with this address or topic may be in the block. */
export function mayContain(bloom: Hex, value: Hex): boolean {
  const bits = hexToBytes(bloom)
  const hash = hexToBytes(keccak256(hexToBytes(value)))
  for (const at of [0, 2, 4]) {
    const bit = (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) & 2_047
    const byte = bits[bits.length - 1 - (bit >> 3)] ?? 0
    if ((byte & (1 << (bit & 7))) === 0) return false
  }
  return true
}
