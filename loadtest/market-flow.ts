/**
 * A recorded flow of commands for one or many markets. 70 % of the commands place orders, about half of which cross. 30
 * % cancel resting orders. During the recording, each command is applied to a book, so that every cancel names a
 * resting order. The recording is not measured.
 */

import { Book } from '#book/book.ts'
import { MatchResult, match } from '#book/match.ts'
import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type Side, type VerifiedOrder, YES } from '#domain/order.ts'
import { type Random, randomFrom } from '../test/support/random.ts'

export type FlowCommand =
  | { readonly type: 'PlaceOrder'; readonly message: { readonly order: VerifiedOrder } }
  | {
      readonly type: 'CancelOrder'
      readonly message: {
        readonly marketId: MarketId
        readonly orderHash: OrderHash
        readonly side: Side
      }
    }

type Recorded = { readonly market: Market; readonly book: Book; rested: [OrderHash, Side][] }

const LEVELS = 100
const TICK = 9_000

export class FlowRecorder {
  readonly #random: Random
  readonly #traders: Address[]
  readonly #markets: Recorded[]
  readonly #result = new MatchResult()
  readonly #nowSec = Math.floor(Date.now() / 1_000)

  constructor(seed: number, markets: number) {
    this.#random = randomFrom(seed)
    this.#traders = Array.from({ length: 5_000 }, () => this.#random.hex(20) as Address)
    this.#markets = Array.from({ length: markets }, (_, index) => ({
      market: this.#market(index),
      book: new Book({ ordersMax: 4_000_000 }),
      rested: [],
    }))
  }

  get markets(): Market[] {
    return this.#markets.map(({ market }) => market)
  }

  /** Orders that cross nothing. */
  resting(count: number): FlowCommand[] {
    return Array.from({ length: count }, () => this.#place(false))
  }

  flow(count: number): FlowCommand[] {
    return Array.from({ length: count }, () => {
      const random = this.#random
      if (random.chance(0.3)) return this.#cancel() ?? this.#place(false)
      return this.#place(random.chance(0.5))
    })
  }

  #market(index: number): Market {
    return {
      id: this.#random.hex(32) as MarketId,
      question: `Will market ${index} be fast?`,
      description: '',
      category: 'general',
      contractAddress: this.#random.hex(20) as Address,
      maker: ZERO_ADDRESS,
      expiration: this.#nowSec + 1_000_000,
      chainId: 31_337,
      createdAt: this.#nowSec,
      quick: false,
    }
  }

  #cancel(): FlowCommand | undefined {
    const { market, book, rested } = this.#random.pick(this.#markets)
    while (rested.length > 0) {
      const at = this.#random.int(0, rested.length - 1)
      const [orderHash, side] = rested[at]!
      rested[at] = rested.at(-1)!
      rested.pop()
      if (book.cancel(orderHash) === undefined) continue
      return { type: 'CancelOrder', message: { marketId: market.id, orderHash, side } }
    }
    return undefined
  }

  #place(crossing: boolean): FlowCommand {
    const random = this.#random
    const { market, book, rested } = random.pick(this.#markets)
    const side: Side = random.chance(0.5) ? BUY : SELL
    const best = side === BUY ? book.bestAsk : book.bestBid
    const aside = random.int(0, LEVELS / 2 - 1)
    const step = side === BUY ? LEVELS / 2 - 1 - aside : LEVELS / 2 + aside
    const price = (crossing && best > 0 ? best : 1 + step * TICK) as Price
    // Crossing orders are smaller, so that the size of the books stays the same.
    const size = (random.int(1, crossing ? 28 : 100) * 1_000_000) as Shares
    const orderHash = random.hex(32) as OrderHash
    const trader = random.pick(this.#traders)
    const expiresAtSec = this.#nowSec + 3_600 + random.int(0, 86_400)
    const rules = { nowSec: this.#nowSec, selfTrade: 'allow', makersMax: 10_000 } as const
    match(book, { trader, side, price, size }, rules, this.#result)
    if (this.#result.left > 0) {
      const remaining = this.#result.left as Shares
      const terms = { orderHash, trader, side, price, size, expiresAtSec, placedAtMs: 0 }
      book.rest(terms, remaining, 0)
      rested.push([orderHash, side])
    }
    const order: VerifiedOrder = {
      marketId: market.id,
      trader,
      side,
      outcome: YES,
      price,
      size,
      nonce: String(random.int(1, 2 ** 50)) as Uint64,
      expiration: String(expiresAtSec) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
      orderHash,
      signature: random.hex(65),
    }
    return { type: 'PlaceOrder', message: { order } }
  }
}
