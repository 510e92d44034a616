/**
 * Addresses in their external form (EIP-55), in which upper-case and lower-case letters encode a checksum. Answers
 * repeat the same few addresses, so results are cached in bounded memory.
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import type { Address } from './ids.ts'
import { CHECKSUM_ADDRESSES_MAX } from './limits.ts'

/**
 * The cache has two generations. When `young` is full, it replaces `old`, and `young` starts empty. A lookup that finds
 * an address only in `old` copies it to `young`. So addresses in use stay cached without tracking the order of use.
 */
let young = new Map<Address, string>()
let old = new Map<Address, string>()

export function checksumAddress(address: Address): string {
  const known = young.get(address)
  if (known !== undefined) return known
  const text = old.get(address) ?? capitalise(address)
  if (young.size >= CHECKSUM_ADDRESSES_MAX / 2) {
    old = young
    young = new Map()
  }
  young.set(address, text)
  return text
}

/**
 * Adds the checksum of EIP-55, which hashes the lower-case digits. If the hash's nibble (4 bits) at a letter's position
 * is 8 or more, the letter becomes a capital.
 */
function capitalise(address: Address): string {
  const digits = address.slice(2)
  const hash = keccak_256(new TextEncoder().encode(digits))
  let text = '0x'
  for (let index = 0; index < digits.length; index++) {
    const byte = hash[index >> 1]!
    const nibble = index % 2 === 0 ? byte >> 4 : byte & 0x0f
    const digit = digits.charAt(index)
    text += nibble >= 8 ? digit.toUpperCase() : digit
  }
  return text
}
