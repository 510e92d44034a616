/**
 * A simple, slow model of a complementary market, with which tests compare the real one. All orders are in one array,
 * which is searched and sorted for every order. Each trader has one account of money.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { ONE } from '#domain/money.ts'
import { BUY, NO, type Outcome, SELL, type VerifiedOrder, YES } from '#domain/order.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'

type Resting = { readonly order: VerifiedOrder; remaining: number; readonly arrival: number }

export type NaiveFill = {
  readonly maker: OrderHash
  readonly size: number
  readonly makerRemaining: number
  /** Price per share that the maker pays or receives. */
  readonly price: number
  readonly kind: 'mint' | 'merge' | undefined
}

export class NaiveMarket {
  resting: Resting[] = []
  #arrivals = 0

  /**
   * Returns the makers that the order may match. The best price for the taker comes first; at the same price,
   * the oldest maker.
   */
  #makers({ side, outcome, price }: VerifiedOrder): { maker: Resting; effective: number }[] {
    return this.resting
      .filter(({ order }) => (order.outcome === outcome) !== (order.side === side))
      .map((maker) => {
        const { order } = maker
        return { maker, effective: order.outcome === outcome ? order.price : ONE - order.price }
      })
      .filter(({ effective }) => (side === BUY ? effective <= price : effective >= price))
      .sort(
        (a, b) =>
          (side === BUY ? a.effective - b.effective : b.effective - a.effective) ||
          a.maker.arrival - b.maker.arrival,
      )
  }

  /**
   * Matches up to `quantity` of the order. Skips expired makers that the order reaches, and returns them in `gone`.
   * With `cancelsOwn`, does the same with makers of the same trader.
   */
  match(order: VerifiedOrder, quantity: number, nowSec: number, cancelsOwn: boolean) {
    const fills: NaiveFill[] = []
    const gone: OrderHash[] = []
    let left = quantity
    for (const { maker } of this.#makers(order)) {
      if (left === 0) break
      const isOwn = cancelsOwn && maker.order.trader === order.trader
      if (Number(maker.order.expiration) <= nowSec || isOwn) {
        gone.push(maker.order.orderHash)
        continue
      }
      const size = Math.min(left, maker.remaining)
      left -= size
      const isSame = maker.order.outcome === order.outcome
      fills.push({
        maker: maker.order.orderHash,
        size,
        makerRemaining: maker.remaining - size,
        price: maker.order.price,
        kind: isSame ? undefined : order.side === BUY ? 'mint' : 'merge',
      })
    }
    return { fills, gone, left }
  }

  accepts(order: VerifiedOrder, how: TimeInForce, nowSec: number, cancelsOwn: boolean): boolean {
    const { fills, left } = this.match(order, order.size, nowSec, cancelsOwn)
    if (how === 'POST_ONLY') return fills.length === 0
    return how === 'IOC' ? fills.length > 0 : left === 0
  }

  /** Matches an order and applies the match. With `rests`, the remainder rests in the book. */
  enter(
    order: VerifiedOrder,
    quantity: number,
    nowSec: number,
    cancelsOwn: boolean,
    rests: boolean,
  ) {
    const result = this.match(order, quantity, nowSec, cancelsOwn)
    for (const { maker, makerRemaining } of result.fills) {
      const found = this.find(maker)!
      found.remaining = makerRemaining
      if (makerRemaining === 0) this.remove(maker)
    }
    for (const orderHash of result.gone) this.remove(orderHash)
    if (result.left > 0 && rests) {
      this.resting.push({ order, remaining: result.left, arrival: this.#arrivals++ })
    }
    return result
  }

  find(orderHash: OrderHash): Resting | undefined {
    return this.resting.find(({ order }) => order.orderHash === orderHash)
  }

  remove(orderHash: OrderHash): void {
    this.resting = this.resting.filter(({ order }) => order.orderHash !== orderHash)
  }

  removeOf(trader: Address): void {
    this.resting = this.resting.filter(({ order }) => order.trader !== trader)
  }

  /**
   * Returns the best bid and ask of an outcome. A missing bid is minus infinity, and a missing ask is plus infinity.
   */
  best(outcome: Outcome): { bid: number; ask: number } {
    const prices = (side: typeof BUY | typeof SELL) =>
      this.resting
        .filter(({ order }) => order.outcome === outcome && order.side === side)
        .map(({ order }) => order.price)
    return {
      bid: Math.max(Number.NEGATIVE_INFINITY, ...prices(BUY)),
      ask: Math.min(Number.POSITIVE_INFINITY, ...prices(SELL)),
    }
  }

  /** Returns whether a book, or the two books together, are crossed. */
  isCrossed(): boolean {
    const [yes, no] = [this.best(YES), this.best(NO)]
    return (
      yes.bid >= yes.ask || no.bid >= no.ask || yes.bid + no.bid >= ONE || yes.ask + no.ask <= ONE
    )
  }
}
