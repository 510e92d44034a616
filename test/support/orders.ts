/**
 * Short notation of orders in tests: `buy('YES').at(0.42).size(10).by('ann').named('a')`. Names stand for traders and
 * for hashes; prices and sizes are in whole units here and nowhere else.
 */

import type { RestingOrder } from '#book/order-record.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, NO, type Outcome, SELL, type Side, YES } from '#domain/order.ts'

type Fields = RestingOrder & { readonly outcome: Outcome }

export class OrderBuilder {
  readonly fields: Fields

  constructor(fields: Fields) {
    this.fields = fields
  }

  /** Sets the price, in whole units such as 0.42. */
  at(price: number): OrderBuilder {
    return this.#with({ price: Math.round(price * ONE) as Price })
  }

  /** Shares in units. */
  size(size: number): OrderBuilder {
    return this.exactly(Math.round(size * ONE))
  }

  /** Sets the size in millionths of a share, for tests in which every millionth matters. */
  exactly(size: number): OrderBuilder {
    return this.#with({ size: size as Shares, remaining: size as Shares })
  }

  by(name: string): OrderBuilder {
    return this.#with({ trader: traderNamed(name) })
  }

  named(name: string): OrderBuilder {
    return this.#with({ orderHash: hashNamed(name) })
  }

  until(expiresAtSec: number): OrderBuilder {
    return this.#with({ expiresAtSec })
  }

  placedAt(placedAtMs: number): OrderBuilder {
    return this.#with({ placedAtMs })
  }

  remaining(remaining: number): OrderBuilder {
    return this.#with({ remaining: Math.round(remaining * ONE) as Shares })
  }

  resting(): RestingOrder {
    const { outcome: _, ...resting } = this.fields
    return resting
  }

  #with(change: Partial<Fields>): OrderBuilder {
    return new OrderBuilder({ ...this.fields, ...change })
  }
}

export function buy(outcome: 'YES' | 'NO'): OrderBuilder {
  return order(BUY, outcome)
}

export function sell(outcome: 'YES' | 'NO'): OrderBuilder {
  return order(SELL, outcome)
}

export function traderNamed(name: string): Address {
  return `0x${hexOf(name, 40)}` as Address
}

export function hashNamed(name: string): OrderHash {
  return `0x${hexOf(name, 64)}` as OrderHash
}

/** Returns the name that a hash or an address of this file was made from. */
export function nameOf(key: string): string {
  return Buffer.from(key.slice(2), 'hex').toString('latin1').split('\0', 1)[0]!
}

function order(side: Side, outcome: 'YES' | 'NO'): OrderBuilder {
  return new OrderBuilder({
    orderHash: hashNamed('order'),
    trader: traderNamed('somebody'),
    side,
    outcome: outcome === 'YES' ? YES : NO,
    price: (ONE / 2) as Price,
    size: ONE as Shares,
    remaining: ONE as Shares,
    expiresAtSec: 2_000_000_000,
    placedAtMs: 1_700_000_000_000,
    matches: 0,
  })
}

/** Repeats the name and a zero byte, so that keys differ in all digits, as real ones do. */
function hexOf(name: string, digits: number): string {
  const once = Buffer.from(`${name}\0`, 'latin1').toString('hex')
  return once.repeat(Math.ceil(digits / once.length)).slice(0, digits)
}
