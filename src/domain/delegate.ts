/**
 * A delegation: an account lets a key sign the account's orders and cancellations, within limits that the exchange
 * enforces.
 */

import { keccak_256 } from '@noble/hashes/sha3.js'
import { checksumAddress } from './checksum-address.ts'
import { type Address, type MarketId, toAddress } from './ids.ts'
import type { Order } from './order.ts'
import { type Rejection, reject } from './rejection.ts'

/** Limits that an account signs along with a delegation. The exchange checks the limits before it matches an order. */
type DelegateLimits = {
  /** Largest order in shares with six decimals; 0 for no limit. */
  readonly maxOrderSize: number
  /** Largest sum of price × open size over all open orders that the delegate signed; 0 for no limit. */
  readonly maxOpenNotional: number
  /** Markets in which the delegate may trade; empty for all. */
  readonly markets: readonly MarketId[]
}

export type Delegation = DelegateLimits & {
  readonly account: Address
  readonly delegate: Address
  /**
   * Unix seconds at which the delegation ends. The exchange accepts an order of the delegate only if the order expires
   * by then. A time in the past means that the delegation has ended or was revoked.
   */
  readonly untilSec: number
  /** Unix seconds until which the contract settles trades that were matched before the delegation ended. */
  readonly settlesUntilSec: number
}

/**
 * When a contract deploys its first contract, the new address is computed from the RLP encoding of [deployer's address,
 * 1]. These are the constant bytes of this encoding: two before the address, one after it.
 */
const LIST_AND_ADDRESS = [0xd6, 0x94]
const FIRST_NONCE = 0x01
const ADDRESS_DIGITS = 40

/**
 * Returns the address of the `Delegates` contract, which is the first contract that the settlement contract deploys.
 */
export function delegatesOf(settlement: Address): Address {
  const bytes = settlement
    .slice(2)
    .match(/../g)!
    .map((byte) => Number.parseInt(byte, 16))
  const hash = keccak_256(Uint8Array.from([...LIST_AND_ADDRESS, ...bytes, FIRST_NONCE]))
  const digits = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return toAddress(`0x${digits.slice(-ADDRESS_DIGITS)}`)
}

/**
 * Returns the reason why a delegation does not allow an order that the delegate signed; undefined if it allows the
 * order. The limit `maxOpenNotional` is checked elsewhere, because it depends on the delegate's open orders.
 */
export function delegationFlaw(
  delegation: Delegation,
  order: Pick<Order, 'marketId' | 'size' | 'expiration'>,
  nowSec: number,
): Rejection | undefined {
  const { untilSec, maxOrderSize, markets, delegate } = delegation
  const who = checksumAddress(delegate)
  if (untilSec <= nowSec) {
    const detail = `the trader has revoked the delegate ${who}, or the delegation has ended`
    return reject('INVALID_SIGNATURE', 'signature', detail)
  }
  if (BigInt(order.expiration) > BigInt(untilSec)) {
    const detail = `order.expiration must be at most ${untilSec}, when the delegation of ${who} ends`
    return reject('DELEGATE_LIMIT', 'order.expiration', detail)
  }
  if (markets.length > 0 && !markets.includes(order.marketId)) {
    const detail = `the trader does not allow the delegate ${who} to trade in this market`
    return reject('DELEGATE_LIMIT', 'order.marketId', detail)
  }
  if (maxOrderSize > 0 && order.size > maxOrderSize) {
    const detail = `order.size must be at most ${maxOrderSize} millionths of a share, the limit of the delegate ${who}`
    return reject('DELEGATE_LIMIT', 'order.size', detail)
  }
  return undefined
}
