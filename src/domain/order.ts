/**
 * An order as signed by the trader, and the rules for its values that hold in every market. Signatures are checked
 * elsewhere.
 */

import {
  type Address,
  type MarketId,
  type OrderHash,
  type Uint64,
  type Uint256,
  ZERO_ADDRESS,
} from './ids.ts'
import { ORDER_EXPIRATION_AHEAD_SEC_MIN } from './limits.ts'
import { isPrice, isShares, notionalFloor, type Price, type Shares, SIZE_MAX } from './money.ts'
import { type Rejection, reject } from './rejection.ts'

export const BUY = 0
export const SELL = 1
/** 0 = BUY, 1 = SELL. */
export type Side = typeof BUY | typeof SELL

export const YES = 0
export const NO = 1
/** 0 = YES, 1 = NO. */
export type Outcome = typeof YES | typeof NO

export const OUTCOMES: readonly Outcome[] = [YES, NO]

export function otherOutcome(outcome: Outcome): Outcome {
  return outcome === YES ? NO : YES
}

/** The nine fields of the EIP-712 type `Order`. */
export type Order = {
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly size: Shares
  readonly nonce: Uint64
  readonly expiration: Uint64
  readonly makerFeeRecipient: Address
}

/** A stablecoin permit of an order; only its shape has been checked. */
export type PermitSignature = {
  readonly nonce: Uint64
  readonly value: Uint256
  readonly deadline: Uint64
  readonly v: 27 | 28
  readonly r: string
  readonly s: string
}

/** An order whose signature was verified. It is plain data, because it is sent between threads. */
export type VerifiedOrder = Order & {
  readonly orderHash: OrderHash
  /** 65 bytes as 0x-hex, `v` 27 or 28. */
  readonly signature: string
  readonly permit?: PermitSignature
}

/** Returns the order's expiration in Unix seconds, at most 2^53 - 1. */
export function expiresAtSec(expiration: Uint64): number {
  return expiration.length < 16
    ? Number(expiration)
    : Math.min(Number(expiration), Number.MAX_SAFE_INTEGER)
}

const DAY_SEC = 86_400

/**
 * Returns every flaw of the order's values at `nowSec`, in the order of the fields. The maximum expiration is checked
 * for new orders only.
 */
export function orderFlaws(
  order: Order,
  nowSec: number,
  expirationDaysMax = Number.POSITIVE_INFINITY,
): Rejection[] {
  const flaws: Rejection[] = []
  if (!isPrice(order.price)) flaws.push(reject('PRICE_OUT_OF_RANGE', 'order.price'))
  if (order.size <= 0) flaws.push(reject('SIZE_NOT_POSITIVE', 'order.size'))
  else if (!isShares(order.size)) {
    flaws.push(
      reject(
        'INVALID_FIELD',
        'order.size',
        `size must be at most ${SIZE_MAX} millionths of a share`,
      ),
    )
  }
  if (expiresAtSec(order.expiration) < nowSec + ORDER_EXPIRATION_AHEAD_SEC_MIN) {
    flaws.push(reject('EXPIRATION_TOO_SOON', 'order.expiration'))
  }
  if (expiresAtSec(order.expiration) > nowSec + expirationDaysMax * DAY_SEC) {
    const detail = `expiration must be at most ${expirationDaysMax} days in the future`
    flaws.push(reject('EXPIRATION_TOO_FAR', 'order.expiration', detail))
  }
  if (order.makerFeeRecipient !== ZERO_ADDRESS) {
    flaws.push(
      reject(
        'INVALID_FIELD',
        'order.makerFeeRecipient',
        'makerFeeRecipient must be the zero address',
      ),
    )
  }
  return flaws
}

/** Returns a flaw if a valid order is worth less than the minimum. */
export function notionalFlaw(
  { price, size }: Pick<Order, 'price' | 'size'>,
  minNotional: number,
): Rejection | undefined {
  if (minNotional === 0 || notionalFloor(price, size) >= minNotional) return undefined
  const detail = `the order value (price × size) must be at least ${minNotional} millionths of the stablecoin`
  return reject('NOTIONAL_TOO_SMALL', 'order.size', detail)
}

/** Cursor for a page of open orders: identifies the last order of the previous page. */
export type OpenOrderPlace = { readonly placedAtMs: number; readonly orderHash: OrderHash }

/**
 * Compares two open orders by age, oldest first. New orders then appear at the end of a list, so the other entries do
 * not move.
 */
export function byAge(a: OpenOrderPlace, b: OpenOrderPlace): number {
  if (a.placedAtMs !== b.placedAtMs) return a.placedAtMs - b.placedAtMs
  if (a.orderHash === b.orderHash) return 0
  return a.orderHash < b.orderHash ? -1 : 1
}
