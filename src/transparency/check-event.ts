/**
 * Checks the form of public events, because a verifier does not trust the exchange that writes them. For example,
 * prices given as text would be compared letter by letter, so "100000" would come before "99999".
 */

import { parseUint64 } from '#domain/ids.ts'
import { MATCHINGS } from '#domain/market.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import { isPrice, isShares } from '#domain/money.ts'
import { CANCEL_CAUSES } from '#domain/order-tags.ts'
import type { OrderTerms, PublicEvent, PublicOrder } from './public-event-shapes.ts'

const HASH = /^0x[0-9a-f]{64}$/
const ADDRESS = /^0x[0-9a-f]{40}$/
const FORCES: readonly unknown[] = [undefined, 'POST_ONLY', 'IOC', 'FOK']
const SIDES_AT_FAULT: readonly unknown[] = ['buyer', 'seller', 'both', 'none']
const EXCUSED: readonly unknown[] = [undefined, 'buyer', 'seller', 'both']
const CLOSE_REASONS: readonly unknown[] = ORDER_CLOSE_REASONS
const CAUSES: readonly unknown[] = [undefined, ...CANCEL_CAUSES]
const MARKET_MATCHINGS: readonly unknown[] = [undefined, ...MATCHINGS]

/** Returns the event; throws if a value does not have the form that docs/transparency.md describes. */
export function checkedEvent(event: PublicEvent): PublicEvent {
  if (isHead(event) && isBody(event)) return event
  throw new Error(
    `the event at offset ${event.offset} has a form that does not match its kind: a field is ` +
      'missing or has an invalid value',
  )
}

function isHead({ offset, marketId, seq, atMs }: PublicEvent): boolean {
  return isNumber(offset) && isHash(marketId) && isNumber(seq) && isNumber(atMs)
}

function isBody(event: PublicEvent): boolean {
  switch (event.type) {
    case 'OrderRested': {
      const { added, remaining, order } = event
      const isNew = order === undefined || isOrder(order)
      return areTerms(event) && isLife(event) && isNumber(added) && isNumber(remaining) && isNew
    }
    case 'OrdersMatched':
      return (
        isOrder(event.taker) &&
        isNumber(event.takerRemaining) &&
        event.fills.every(
          ({ makerHash, maker, price, size, makerRemaining }) =>
            isHash(makerHash) &&
            isAddress(maker) &&
            isPrice(price) &&
            isShares(size) &&
            isNumber(makerRemaining),
        )
      )
    case 'OrderClosed': {
      const { reason, remaining, cause } = event
      const isKnown = CLOSE_REASONS.includes(reason) && CAUSES.includes(cause)
      return areTerms(event) && isLife(event) && isNumber(remaining) && isKnown
    }
    case 'MarketOpened': {
      const { id, chainId, matching } = event.market ?? {}
      return id === event.marketId && isNumber(chainId) && MARKET_MATCHINGS.includes(matching)
    }
    case 'MarketClosed':
      return typeof event.reason === 'string'
    case 'TradeFailed': {
      const { fault, excused } = event
      return isTrade(event) && SIDES_AT_FAULT.includes(fault) && EXCUSED.includes(excused)
    }
    case 'TradeSubmitted':
    case 'TradeConfirmed':
    case 'TradeReverted':
      return isTrade(event)
    default:
      return false
  }
}

function isOrder(order: PublicOrder): boolean {
  const { nonce, expiration, makerFeeRecipient, signatureHash, permitHash } = order
  const { timeInForce, bookByMs, replaces } = order
  return (
    areTerms(order) &&
    isUint64(nonce) &&
    isUint64(expiration) &&
    isAddress(makerFeeRecipient) &&
    isHash(signatureHash) &&
    (permitHash === undefined || isHash(permitHash)) &&
    FORCES.includes(timeInForce) &&
    (bookByMs === undefined || isNumber(bookByMs)) &&
    (replaces === undefined || isHash(replaces))
  )
}

function areTerms({ orderHash, trader, side, outcome, price, size }: OrderTerms): boolean {
  return (
    isHash(orderHash) &&
    isAddress(trader) &&
    isBit(side) &&
    isBit(outcome) &&
    isPrice(price) &&
    isShares(size)
  )
}

function isLife(life: {
  readonly expiresAtSec: number
  readonly placedAtMs: number
  readonly matches: number
}): boolean {
  return isNumber(life.expiresAtSec) && isNumber(life.placedAtMs) && isNumber(life.matches)
}

function isTrade({ tradeId }: { readonly tradeId: unknown }): boolean {
  return typeof tradeId === 'string'
}

function isHash(value: unknown): boolean {
  return typeof value === 'string' && HASH.test(value)
}

function isAddress(value: unknown): boolean {
  return typeof value === 'string' && ADDRESS.test(value)
}

function isUint64(value: unknown): boolean {
  return typeof value === 'string' && parseUint64(value) !== undefined
}

function isBit(value: unknown): boolean {
  return value === 0 || value === 1
}

/** Returns whether a value is an integer of at least 0. */
function isNumber(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
