/**
 * Addresses in their external form: EIP-55, with a checksum in the case of the letters. Answers repeat the same few
 * addresses, so results are cached in bounded memory.
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import type { Address } from './ids.ts'
import { CHECKSUM_ADDRESSES_MAX } from './limits.ts'

/**
 * The cache has two generations. When the young generation is full, it becomes the old one. A lookup copies an entry
 * from the old generation to the young one, so addresses in use stay cached without tracking the order of use.
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
 * Adds the checksum. A letter becomes a capital if the nibble at its position in the hash of the lower-case digits is 8
 * or more.
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
