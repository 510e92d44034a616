/**
 * Sends the same random commands to the book and to a simple reference book, and compares the two. The full test sends
 * a million commands. The default is a sample.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import { MatchResult, match, preview, type SelfTrade } from '#book/match.ts'
import { OrderList } from '#book/order-list.ts'
import type { RestingOrder } from '#book/order-record.ts'
import type { BookSnapshot } from '#book/snapshot.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { PRICE_MAX, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { NaiveBook } from '../support/naive-book.ts'
import { type Random, withSeeds } from '../support/random.ts'
import { sampleOf } from '../support/sample.ts'

type Flow = {
  readonly operations: number
  /** Number of different prices of orders. `tick` is the difference between two neighbouring prices. */
  readonly prices: number
  readonly tick: number
  readonly restingMax: number
  readonly traders: number
  readonly sizeMax: number
  readonly lifeSecMax: number
  readonly selfTrade: SelfTrade
  readonly makersMax: number
  /** Fraction of new orders that are meant to cross. */
  readonly crossing: number
}

const usual: Flow = {
  operations: sampleOf(85_000, 3),
  prices: 40,
  tick: 1,
  restingMax: 250,
  traders: 12,
  sizeMax: 100,
  lifeSecMax: 4_000,
  selfTrade: 'allow',
  makersMax: 1_000,
  crossing: 0.45,
}

const flows: Record<string, Flow> = {
  'on a few prices close together': usual,
  'on prices all over the grid': { ...usual, prices: 2_000, tick: 499 },
  'with traders who have only one or two orders': { ...usual, operations: 40_000, traders: 400 },
  'with self trades cancelled': { ...usual, selfTrade: 'cancel-resting', traders: 4 },
  'with sizes whose sums exceed 2^53': { ...usual, sizeMax: SIZE_MAX, prices: 8 },
  'with low limits of makers per match and of orders': { ...usual, makersMax: 3, restingMax: 40 },
  'with orders that live for seconds or for ever': { ...usual, lifeSecMax: SIZE_MAX },
  'with thousands of orders on many pages': {
    ...usual,
    operations: 40_000,
    restingMax: 6_000,
    prices: 500,
    tick: 1_999,
    traders: 500,
    crossing: 0.08,
    lifeSecMax: 1_000_000,
  },
}

for (const [name, flow] of Object.entries(flows)) {
  test(`in a random run ${name}, the book and a naive reference book give the same results`, () => {
    withSeeds([1, 2], (random) => new Pair(random, flow).run())
  })
}

/**
 * The tested book, the naive book, and a snapshot of the tested book. The snapshot is taken while the tested book
 * changes.
 */
class Pair {
  readonly #random: Random
  readonly #flow: Flow
  readonly #traders: Address[]
  readonly #result = new MatchResult()
  readonly #list = new OrderList()
  #book: Book
  #naive = new NaiveBook()
  #nowSec = 1_700_000_000
  /** Which order came to rest first. */
  readonly #arrivals = new Map<OrderHash, number>()
  /** Orders that rest or have rested in the book. The orders to cancel are picked from them. */
  readonly #known: RestingOrder[] = []
  #snapshot: BookSnapshot | undefined
  #chunks: Buffer[] = []
  #stateAtBegin = ''
  #queuesAtBegin: RestingOrder[] = []
  #listsAtBegin: RestingOrder[][] = []

  constructor(random: Random, flow: Flow) {
    this.#random = random
    this.#flow = flow
    this.#traders = Array.from({ length: flow.traders }, () => random.hex(20) as Address)
    this.#book = new Book({ ordersMax: flow.restingMax, seed: random.seed })
  }

  run(): void {
    for (let done = 0; done < this.#flow.operations; done++) {
      const dice = this.#random.next()
      if (dice < 0.62) this.#place()
      else if (dice < 0.85) this.#cancel()
      else if (dice < 0.9) this.#grow()
      else if (dice < 0.95) this.#passTime()
      else this.#copySome()
      if (done % 1_000 === 0) this.#compare()
    }
    this.#compare()
  }

  #order(): RestingOrder {
    const random = this.#random
    const { prices, tick, sizeMax, lifeSecMax } = this.#flow
    const side = random.chance(0.5) ? BUY : SELL
    const crossing = random.chance(this.#flow.crossing)
    // Buys usually have prices in the lower half, and sells in the upper half. An order that is meant to cross gets a
    // price in the other half.
    const upper = (side === SELL) !== crossing
    const step = random.int(0, (prices >> 1) - 1) + (upper ? prices >> 1 : 0)
    const size = random.int(1, random.chance(0.2) ? sizeMax : Math.ceil(sizeMax / 4)) as Shares
    const life = random.chance(0.8) ? random.int(1, 90) : random.int(1, lifeSecMax)
    return {
      orderHash: random.hex(32) as OrderHash,
      trader: random.pick(this.#traders),
      side,
      price: Math.min(PRICE_MAX, 1 + step * tick) as Price,
      size,
      remaining: size,
      expiresAtSec: Math.min(SIZE_MAX, this.#nowSec + (random.chance(0.5) ? 3_000 : 0) + life),
      placedAtMs: this.#nowSec * 1_000 + random.int(0, 999),
      matches: 0,
    }
  }

  #place(): void {
    const order = this.#order()
    const { selfTrade, makersMax } = this.#flow
    const rules = { nowSec: this.#nowSec, selfTrade, makersMax }
    const before = preview(this.#book, order, rules)
    const expected = this.#naive.match(order, rules)
    // The preview must predict the filled size and the first price.
    assert.equal(before.filled, order.size - expected.left)
    assert.equal(before.price, expected.fills[0]?.price ?? 0)
    const { fills, expired, selfTraded } = this.#result
    match(this.#book, order, rules, this.#result)

    assert.equal(this.#result.left, expected.left)
    assert.equal(this.#result.limited, expected.limited)
    assert.equal(fills.length, expected.fills.length)
    let filled = 0
    for (const [index, fill] of expected.fills.entries()) {
      same(fills.order(index), fill)
      assert.equal(fills.taken(index), fill.taken)
      filled += fills.taken(index)
    }
    assert.equal(filled + this.#result.left, order.size, 'size is conserved')
    sameList(expired, expected.expired)
    sameList(selfTraded, expected.selfTraded)

    if (expected.left === 0 || expected.limited) return
    const matches = expected.fills.length
    const remainder = { ...order, remaining: expected.left as Shares, matches }
    const full = this.#naive.bids.length + this.#naive.asks.length === this.#flow.restingMax
    assert.equal(this.#book.rest(order, remainder.remaining, matches), !full)
    if (full) return
    this.#naive.rest(remainder)
    this.#arrivals.set(order.orderHash, this.#arrivals.size)
    const { bestBid, bestAsk } = this.#book
    assert.ok(bestAsk === 0 || bestBid < bestAsk, 'the book is not crossed')
    if (this.#known.length < 4 * this.#flow.restingMax) this.#known.push(remainder)
    else this.#known[this.#random.int(0, this.#known.length - 1)] = remainder
  }

  #cancel(): void {
    if (this.#known.length === 0) return
    const { orderHash } = this.#pick()
    const expected = this.#naive.remove(orderHash)
    const cancelled = this.#book.cancel(orderHash)
    if (expected === undefined) assert.equal(cancelled, undefined)
    else same(cancelled, expected)
  }

  /** Returns an order to change: usually one that rests in the book, otherwise one that may be gone. */
  #pick(): RestingOrder {
    const random = this.#random
    const { bids, asks } = this.#naive
    const side = random.chance(0.5) ? bids : asks
    return side.length > 0 && random.chance(0.7) ? random.pick(side) : random.pick(this.#known)
  }

  #grow(): void {
    if (this.#known.length === 0) return
    const { orderHash } = this.#pick()
    const expected = this.#naive.find(orderHash)
    const missing = expected === undefined ? 1 : expected.size - expected.remaining
    if (missing === 0) return
    const quantity = this.#random.int(1, missing) as Shares
    const remaining = this.#book.grow(orderHash, quantity)
    if (expected !== undefined) expected.remaining = (expected.remaining + quantity) as Shares
    assert.equal(remaining, expected?.remaining)
  }

  #passTime(): void {
    const random = this.#random
    this.#nowSec += random.chance(0.01) ? random.int(0, 100_000) : random.int(0, 20)
    if (random.chance(0.3)) return
    const overdue = this.#naive.removeExpired(this.#nowSec)
    this.#list.clear()
    while (!this.#book.expire(this.#nowSec, random.int(1, 50), this.#list));
    const found = Array.from({ length: this.#list.length }, (_, index) => this.#list.order(index))
    const byHash = (a: RestingOrder, b: RestingOrder) => (a.orderHash < b.orderHash ? -1 : 1)
    overdue.sort(byHash)
    found.sort(byHash)
    assert.equal(found.length, overdue.length)
    for (const [index, order] of overdue.entries()) same(found[index], order)
    const next = this.#book.nextExpirySec
    assert.equal(next === undefined, this.#book.count === 0)
    assert.ok(next === undefined || next > this.#nowSec)
  }

  #copySome(): void {
    const random = this.#random
    if (this.#snapshot === undefined) {
      if (!random.chance(0.02)) return
      this.#snapshot = this.#book.beginSnapshot()
      this.#stateAtBegin = this.#book.stateHash()
      this.#queuesAtBegin = [...this.#book.orders(BUY), ...this.#book.orders(SELL)]
      this.#listsAtBegin = this.#traders.map((trader) => this.#book.ordersOf(trader))
      this.#chunks = []
      return
    }
    if (random.chance(0.02)) {
      this.#book.clear()
      this.#naive = new NaiveBook()
    }
    if (!random.chance(0.2)) return
    const most = Math.ceil(this.#flow.restingMax / 4)
    this.#chunks.push(...this.#snapshot.copySome(random.int(1, most)))
    if (!this.#snapshot.done) return
    this.#snapshot = undefined
    const chunks = this.#chunks.toSorted(() => random.next() - 0.5)
    const options = { ordersMax: this.#flow.restingMax, seed: random.int(0, 1000) }
    const restored = Book.restore(chunks, options)
    assert.equal(restored.stateHash(), this.#stateAtBegin)
    const queues = [...restored.orders(BUY), ...restored.orders(SELL)]
    assert.equal(queues.length, this.#queuesAtBegin.length)
    for (const [index, order] of this.#queuesAtBegin.entries()) same(queues[index], order)
    for (const [index, list] of this.#listsAtBegin.entries()) {
      const listed = restored.ordersOf(this.#traders[index]!)
      assert.equal(listed.length, list.length)
      for (const [place, order] of list.entries()) same(listed[place], order)
    }
    if (!random.chance(0.5)) return
    // In half of the cases, replaces the book by a copy restored from a snapshot. The copy must behave like the
    // original.
    const chunksNow = this.#book.beginSnapshot().copySome(Number.MAX_SAFE_INTEGER)
    this.#book = Book.restore(chunksNow, options)
  }

  #compare(): void {
    const book = this.#book
    const resting = [...this.#naive.bids, ...this.#naive.asks]
    assert.equal(book.count, resting.length)
    assert.equal(book.bestBid, this.#naive.bids[0]?.price ?? 0)
    assert.equal(book.bestAsk, this.#naive.asks[0]?.price ?? 0)
    for (const side of [BUY, SELL] as const) {
      const expected = this.#naive.side(side)
      let index = 0
      for (const order of book.orders(side)) same(order, expected[index++])
      assert.equal(index, expected.length)
      const levels = new Map<number, { size: bigint; orders: number }>()
      for (const { price, remaining } of expected) {
        const level = levels.get(price) ?? { size: 0n, orders: 0 }
        levels.set(price, { size: level.size + BigInt(remaining), orders: level.orders + 1 })
      }
      const depth = [...levels].map(([price, level]) => ({ price, ...level }))
      assert.deepEqual(book.depth(side), depth)
      assert.deepEqual(book.depth(side, 3), depth.slice(0, 3))
    }
    const trader = this.#random.pick(this.#traders)
    const theirs = resting.filter((order) => order.trader === trader)
    assert.equal(book.countOf(trader), theirs.length)
    const ours = book.ordersOf(trader)
    assert.equal(ours.length, theirs.length)
    const arrival = ({ orderHash }: RestingOrder) => this.#arrivals.get(orderHash)!
    theirs.sort((a, b) => a.placedAtMs - b.placedAtMs || arrival(a) - arrival(b))
    for (const [index, order] of theirs.entries()) same(ours[index], order)
    for (const order of resting.slice(0, 20)) same(book.find(order.orderHash), order)
  }
}

function sameList(list: OrderList, expected: readonly RestingOrder[]): void {
  assert.equal(list.length, expected.length)
  for (const [index, order] of expected.entries()) same(list.order(index), order)
}

/** Compares two orders like `deepEqual`, but is fast enough for millions of comparisons. */
function same(found: RestingOrder | undefined, expected: RestingOrder | undefined): void {
  if (found !== undefined && expected !== undefined) {
    if (
      found.orderHash === expected.orderHash &&
      found.trader === expected.trader &&
      found.side === expected.side &&
      found.price === expected.price &&
      found.size === expected.size &&
      found.remaining === expected.remaining &&
      found.expiresAtSec === expected.expiresAtSec &&
      found.placedAtMs === expected.placedAtMs &&
      found.matches === expected.matches
    ) {
      return
    }
  }
  assert.deepEqual(found, expected)
  assert.fail('orders that differ')
}
