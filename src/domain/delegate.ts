/** A key that an account appointed to sign its orders and cancellations. */

import { keccak_256 } from '@noble/hashes/sha3.js'
import { type Address, toAddress } from './ids.ts'

/** The first two bytes and the last one of the RLP list of an address and the number 1. */
const LIST_AND_ADDRESS = [0xd6, 0x94]
const FIRST_NONCE = 0x01
const ADDRESS_DIGITS = 40

/** Returns the address of the `Delegates` contract: the settlement contract deploys it as its first contract. */
export function delegatesOf(settlement: Address): Address {
  const bytes = settlement
    .slice(2)
    .match(/../g)!
    .map((byte) => Number.parseInt(byte, 16))
  const hash = keccak_256(Uint8Array.from([...LIST_AND_ADDRESS, ...bytes, FIRST_NONCE]))
  const digits = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return toAddress(`0x${digits.slice(-ADDRESS_DIGITS)}`)
}
