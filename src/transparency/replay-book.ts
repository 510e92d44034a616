/**
 * Resting orders of one outcome, for a replay. Each price has a queue of orders in the order of arrival. The code is
 * simple rather than fast.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'

export type ReplayOrder = {
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly side: Side
  readonly price: number
  readonly size: number
  readonly expiresAtSec: number
  remaining: number
  /** Sequence number of the event with which the order began to rest. */
  arrival: number
}

export class ReplayBook {
  /** Prices of buys and prices of sells, each in ascending order. */
  readonly #prices: readonly [number[], number[]] = [[], []]
  readonly #queues: readonly [
    Map<number, Map<OrderHash, ReplayOrder>>,
    Map<number, Map<OrderHash, ReplayOrder>>,
  ] = [new Map(), new Map()]

  /** Returns the oldest order at the best price of a side. */
  best(side: Side): ReplayOrder | undefined {
    const price = side === BUY ? this.#prices[BUY].at(-1) : this.#prices[SELL][0]
    if (price === undefined) return undefined
    const [first] = this.#queues[side].get(price)!.values()
    return first
  }

  /**
   * Returns the resting order that an incoming order of this side and price would match first; undefined if there is
   * none.
   */
  crossing(side: Side, price: number): ReplayOrder | undefined {
    const maker = this.best(side === BUY ? SELL : BUY)
    if (maker === undefined) return undefined
    const crosses = side === BUY ? maker.price <= price : maker.price >= price
    return crosses ? maker : undefined
  }

  /** Adds an order at the end of the queue of its price. */
  rest(order: ReplayOrder): void {
    const queues = this.#queues[order.side]
    let queue = queues.get(order.price)
    if (queue === undefined) {
      queue = new Map()
      queues.set(order.price, queue)
      const prices = this.#prices[order.side]
      prices.splice(placeOf(prices, order.price), 0, order.price)
    }
    queue.set(order.orderHash, order)
  }

  remove({ orderHash, side, price }: ReplayOrder): void {
    const queue = this.#queues[side].get(price)
    queue?.delete(orderHash)
    if (queue?.size !== 0) return
    this.#queues[side].delete(price)
    const prices = this.#prices[side]
    prices.splice(placeOf(prices, price), 1)
  }

  /** Returns the total size at each price of a side, best price first. */
  levels(side: Side): [price: number, size: string][] {
    const prices = side === BUY ? this.#prices[BUY].toReversed() : this.#prices[SELL]
    return prices.map((price) => {
      let size = 0n
      for (const { remaining } of this.#queues[side].get(price)!.values()) size += BigInt(remaining)
      return [price, String(size)]
    })
  }

  has({ orderHash, side, price }: ReplayOrder): boolean {
    return this.#queues[side].get(price)?.has(orderHash) === true
  }
}

/** Returns the index of the first price that is not lower than `price`, in a list of ascending prices. */
function placeOf(prices: readonly number[], price: number): number {
  let low = 0
  let high = prices.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (prices[middle]! < price) low = middle + 1
    else high = middle
  }
  return low
}
