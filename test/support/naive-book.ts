/** A simple, slow book as the reference: two sorted arrays. */

import type { MatchRules, Taker } from '#book/match.ts'
import type { RestingOrder } from '#book/order-record.ts'
import type { Shares } from '#domain/money.ts'
import { BUY, type Side } from '#domain/order.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'

type Kept = { -readonly [Field in keyof RestingOrder]: RestingOrder[Field] }

export class NaiveBook {
  bids: Kept[] = []
  asks: Kept[] = []

  side(side: Side): Kept[] {
    return side === BUY ? this.bids : this.asks
  }

  match(taker: Taker, rules: MatchRules) {
    const makers = taker.side === BUY ? this.asks : this.bids
    const result = { fills: [] as (Kept & { taken: number })[], expired: [] as Kept[] }
    const selfTraded: Kept[] = []
    let left: number = taker.size
    let met = 0
    const crosses = (maker: Kept | undefined): maker is Kept =>
      maker !== undefined &&
      (taker.side === BUY ? maker.price <= taker.price : maker.price >= taker.price)
    while (left > 0 && met < rules.makersMax && crosses(makers[0])) {
      const maker = makers[0]
      met++
      if (maker.expiresAtSec <= rules.nowSec) result.expired.push(makers.shift()!)
      else if (rules.selfTrade === 'cancel-resting' && maker.trader === taker.trader) {
        selfTraded.push(makers.shift()!)
      } else {
        const taken = Math.min(left, maker.remaining)
        left -= taken
        maker.remaining = (maker.remaining - taken) as Shares
        result.fills.push({ ...maker, taken })
        if (maker.remaining === 0) makers.shift()
      }
    }
    return { ...result, selfTraded, left, limited: left > 0 && crosses(makers[0]) }
  }

  /** Returns whether an order with this time in force may be placed, by matching it in a copy of the book. */
  accepts(taker: Taker, rules: MatchRules, timeInForce: TimeInForce): boolean {
    const copy = new NaiveBook()
    copy.bids = this.bids.map((order) => ({ ...order }))
    copy.asks = this.asks.map((order) => ({ ...order }))
    const { fills, left } = copy.match(taker, rules)
    if (timeInForce === 'POST_ONLY') return fills.length === 0
    return timeInForce === 'IOC' ? fills.length > 0 : left === 0
  }

  rest(order: RestingOrder): void {
    const queue = this.side(order.side)
    const worse = (other: Kept) =>
      order.side === BUY ? other.price < order.price : other.price > order.price
    const place = queue.findIndex(worse)
    queue.splice(place === -1 ? queue.length : place, 0, { ...order })
  }

  find(orderHash: string): Kept | undefined {
    const isIt = (order: Kept) => order.orderHash === orderHash
    return this.bids.find(isIt) ?? this.asks.find(isIt)
  }

  remove(orderHash: string): Kept | undefined {
    for (const queue of [this.bids, this.asks]) {
      const place = queue.findIndex((order) => order.orderHash === orderHash)
      if (place !== -1) return queue.splice(place, 1)[0]
    }
    return undefined
  }

  removeExpired(nowSec: number): Kept[] {
    const hasExpired = (order: Kept) => order.expiresAtSec <= nowSec
    const expired = [...this.bids.filter(hasExpired), ...this.asks.filter(hasExpired)]
    if (expired.length === 0) return expired
    this.bids = this.bids.filter((order) => !hasExpired(order))
    this.asks = this.asks.filter((order) => !hasExpired(order))
    return expired
  }
}
