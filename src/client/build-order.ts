/**
 * Builds an order from a trader's intent, without the trader's address, which the signer adds later. Signs and sends
 * nothing. Throws immediately if the exchange would reject the order.
 */

import { parseMarketId, parseUint64, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import { ORDER_EXPIRATION_AHEAD_SEC_MIN } from '#domain/limits.ts'
import { isPrice, isShares, type Price, type Shares } from '#domain/money.ts'
import {
  BUY,
  expiresAtSec,
  NO,
  type Order,
  type Outcome,
  SELL,
  type Side,
  YES,
} from '#domain/order.ts'
import type { RejectionCode } from '#domain/rejection.ts'
import { type Amount, readAmount } from './amount.ts'
import { nextNonce } from './order-nonce.ts'
import { SibylError } from './sibyl-error.ts'

/** An order without its trader, which the signer adds. */
export type OrderDraft = Omit<Order, 'trader'>

type Integer = string | number | bigint

export type OrderIntent = {
  readonly marketId: string
  readonly side: 'buy' | 'sell'
  readonly outcome: 'YES' | 'NO'
  /**
   * Price of one share: '0.42', or 420000 in millionths. A `number` below 100 is rejected, because 42 would mean
   * 0.000042 dollars.
   */
  readonly price: Amount
  /** Size in shares: '10' or '2.5', or 10000000 in millionths. */
  readonly size: Amount
  /** Any 64-bit number that distinguishes this order from an otherwise equal one; the default increases with time. */
  readonly nonce?: Integer
  /** Current Unix seconds; by default from this machine's clock. */
  readonly nowSec?: number
} & (
  | { /** Unix seconds. */ readonly expiration: Integer; readonly ttlSeconds?: never }
  | {
      /** Lifetime in seconds from now. The server requires at least 60 when the order arrives, so use more. */
      readonly ttlSeconds: number
      readonly expiration?: never
    }
)

export function buildOrder(intent: OrderIntent): OrderDraft {
  const marketId = parseMarketId(String(intent.marketId))
  if (marketId === undefined) {
    throw refuse('INVALID_FIELD', 'marketId', `'${intent.marketId}' is not 0x and 64 hex digits`)
  }
  return {
    marketId,
    side: readSide(intent.side),
    outcome: readOutcome(intent.outcome),
    price: readPrice(intent.price),
    size: readSize(intent.size),
    nonce: intent.nonce === undefined ? nextNonce() : readUint64('nonce', intent.nonce),
    expiration: readExpiration(intent),
    makerFeeRecipient: ZERO_ADDRESS,
  }
}

function readSide(side: string): Side {
  if (side === 'buy') return BUY
  if (side === 'sell') return SELL
  throw refuse('INVALID_FIELD', 'side', `'${side}' is neither 'buy' nor 'sell'`)
}

function readOutcome(outcome: string): Outcome {
  if (outcome === 'YES') return YES
  if (outcome === 'NO') return NO
  throw refuse('INVALID_FIELD', 'outcome', `'${outcome}' is neither 'YES' nor 'NO'`)
}

/** Smallest price accepted as a number, in millionths of a dollar. A smaller number was probably meant as cents. */
const PRICE_NUMBER_MIN = 100

function readPrice(amount: Amount): Price {
  const price = readAmount('price', amount)
  if (typeof amount === 'number' && amount >= 1 && amount < PRICE_NUMBER_MIN) {
    const [meant, counted] = [(amount / 100).toFixed(2), (amount / 1e6).toFixed(6)]
    throw refuse(
      'PRICE_OUT_OF_RANGE',
      'price',
      `a number is in millionths of a dollar, so ${amount} means ${counted} dollars; write '${meant}' for ${amount} cents, ` +
        `or '${counted}' for ${counted} dollars`,
    )
  }
  if (isPrice(price)) return price
  const hint = typeof amount === 'string' ? '' : '; a number is in millionths of a dollar'
  throw refuse(
    'PRICE_OUT_OF_RANGE',
    'price',
    `must be from '0.000001' to '0.999999', not ${amount}${hint}`,
  )
}

function readSize(amount: Amount): Shares {
  const size = readAmount('size', amount)
  if (isShares(size)) return size
  throw refuse('SIZE_NOT_POSITIVE', 'size', `must be above zero, not ${amount}`)
}

function readExpiration(intent: OrderIntent): Uint64 {
  const nowSec = intent.nowSec ?? Math.floor(Date.now() / 1000)
  const { expiration, ttlSeconds } = intent
  if ((expiration === undefined) === (ttlSeconds === undefined)) {
    throw refuse('MISSING_FIELD', 'expiration', 'give either expiration or ttlSeconds, not both')
  }
  const value = readUint64('expiration', expiration ?? nowSec + (ttlSeconds ?? 0))
  if (expiresAtSec(value) < nowSec + ORDER_EXPIRATION_AHEAD_SEC_MIN) {
    const least = `${ORDER_EXPIRATION_AHEAD_SEC_MIN} seconds in the future`
    throw refuse(
      'EXPIRATION_TOO_SOON',
      'expiration',
      `the expiration time ${value} (Unix seconds) must be at least ${least}`,
    )
  }
  return value
}

function readUint64(field: string, integer: Integer): Uint64 {
  // A number above 2^53 is rejected, because the caller's program may have rounded it.
  const exact = typeof integer !== 'number' || Number.isSafeInteger(integer)
  const value = exact ? parseUint64(String(integer)) : undefined
  if (value !== undefined) return value
  const rounded = !exact && Number.isInteger(integer)
  const hint = rounded ? '; write a number beyond 2^53 as text or as a bigint' : ''
  throw refuse('INVALID_FIELD', field, `${integer} is not an integer from 0 to 2^64 − 1${hint}`)
}

function refuse(code: RejectionCode, field: string, message: string): SibylError {
  return new SibylError(code, `${field}: ${message}`, { field: `order.${field}` })
}
