/**
 * Sends the same random operations to a complementary market and to a naive reference market. Both must have the same
 * fills in the same order, and the same resting orders. No book is crossed, and every unit of dollars and shares is
 * accounted for.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import type { OrderHash } from '#domain/ids.ts'
import type { MarketEvent, OrdersMatched } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import { complementCost, costCeil, ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, OUTCOMES, type VerifiedOrder } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Trade } from '#domain/trade.ts'
import { buyerAmount, buyerLeg, sellerAmount, sellerLeg } from '#domain/trade-legs.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import type { PlacedOrder, TradeReport } from '#protocol/market.ts'
import { apply, bookOptions, market, newMarket } from '#services/market/market.ts'
import { buy, sell } from '../../support/orders.ts'
import { type Random, withSeeds } from '../../support/random.ts'
import { sampleOf } from '../../support/sample.ts'
import { aMarket, START_SEC, signed } from './market-fixture.ts'
import { NaiveMarket } from './naive-market.ts'
import { stateHashOf } from './state-hash.ts'

/** With TEST_WHOLE=1: 20 runs of 50,000 operations. */
const OPERATIONS = 50_000
const SAMPLE = 20
const GROUPS = ['one', 'two']
const TRADERS = ['ann', 'bob', 'cat', 'dan', 'eve']

type Flow = { readonly ticks: number; readonly sizeMax: number; readonly cancelsOwn: boolean }

class Pair {
  readonly #random: Random
  readonly #flow: Flow
  readonly #opened = aMarket({ matching: 'complementary' })
  readonly #rules
  #state
  readonly #naive = new NaiveMarket()
  readonly #events: MarketEvent[] = []
  #step: MarketEvent[] = []
  readonly #orders = new Map<OrderHash, VerifiedOrder>()
  readonly #known: OrderHash[] = []
  /** Orders that may rest again if one of their trades fails. */
  readonly #mayReturn = new Set<OrderHash>()
  readonly #trades: Trade[] = []
  readonly #groups = new Map<OrderHash, string>()
  #nowMs = START_SEC * 1_000
  #count = 0
  readonly counts = {
    mint: 0,
    merge: 0,
    ordinary: 0,
    refused: 0,
    returned: 0,
    own: 0,
    group: 0,
    deadman: 0,
  }

  constructor(random: Random, flow: Flow) {
    this.#random = random
    this.#flow = flow
    const selfTrade = flow.cancelsOwn ? ('cancel-resting' as const) : ('allow' as const)
    this.#rules = { selfTrade, ordersMax: 1_000_000, seed: random.seed }
    this.#state = newMarket(this.#opened, this.#rules, { closed: new Map(), trades: new Map() })
    market.OpenMarket(this.#state, { market: this.#opened }, this.#context())
    this.#events.push(...this.#step)
    this.#step = []
  }

  #context() {
    this.#step = []
    const step = this.#step
    return { nowMs: this.#nowMs, emit: (event: MarketEvent) => void step.push(event) }
  }

  get #nowSec(): number {
    return Math.floor(this.#nowMs / 1_000)
  }

  run(operations: number): void {
    for (let done = 0; done < operations; done++) {
      const dice = this.#random.next()
      if (dice < 0.7) this.#place()
      else if (dice < 0.86) this.#cancel()
      else if (dice < 0.94) this.#settle()
      else if (dice < 0.98) this.#passTime()
      else if (dice < 0.981) this.#restore()
      else this.#cancelMany()
      this.#compare(done % 500 === 0)
      this.#events.push(...this.#step)
      this.#step = []
    }
    this.#compare(true)
    this.#replay()
    for (const [what, times] of Object.entries(this.counts)) {
      const isPossible = what !== 'own' || this.#flow.cancelsOwn
      if (isPossible && operations > 1_000) assert.ok(times > 0, `the flow has no ${what}`)
    }
  }

  #order(): VerifiedOrder {
    const random = this.#random
    const { ticks, sizeMax } = this.#flow
    const builder = (random.chance(0.5) ? buy : sell)(random.chance(0.5) ? 'YES' : 'NO')
      .exactly(random.int(1, sizeMax))
      .by(random.pick(TRADERS))
      .until(this.#nowSec + random.int(60, 2_000))
    // The price is near one half, at a tick that does not divide a dollar.
    const price = (ONE / 2 + random.int(-ticks, ticks) * 3_331) as Price
    const orderHash = `0x${(++this.#count).toString(16).padStart(64, '0')}` as OrderHash
    return { ...signed(builder), price, orderHash }
  }

  #place(): void {
    const random = this.#random
    const order = this.#order()
    const { cancelsOwn } = this.#flow
    const placed: PlacedOrder = { order }
    if (random.chance(0.2)) placed.timeInForce = random.pick(['POST_ONLY', 'IOC', 'FOK'] as const)
    if (random.chance(0.3)) {
      placed.tags = { group: random.pick(GROUPS) }
      this.#groups.set(order.orderHash, placed.tags.group!)
    }
    const target = random.chance(0.15) ? this.#naive.resting.at(-1) : undefined
    const nowSec = this.#nowSec
    if (target !== undefined && Number(target.order.expiration) > nowSec) {
      placed.replaces = target.order.orderHash
      placed.order = { ...order, trader: target.order.trader }
    }
    this.#orders.set(order.orderHash, placed.order)
    this.#known.push(order.orderHash)
    const answer = market.PlaceOrder(this.#state, placed, this.#context())
    const before = this.#naive.resting
    if (placed.replaces !== undefined) this.#naive.remove(placed.replaces)
    const how = placed.timeInForce
    if (how !== undefined && !this.#naive.accepts(placed.order, how, nowSec, cancelsOwn)) {
      assert.ok(isRejection(answer), `${how} is refused`)
      assert.equal(this.#step.length, 0, 'a refused order changes nothing')
      this.#naive.resting = before
      this.counts.refused++
      return
    }
    assert.ok(!isRejection(answer), JSON.stringify(answer))
    const rests = how === undefined || how === 'POST_ONLY'
    const matches = this.#enter(placed.order, order.size, rests)
    assert.equal(answer.matches, matches)
    if (placed.replaces !== undefined) this.#mayReturn.delete(placed.replaces)
  }

  /** Places the order in the naive market, and compares the result with the events of the real one. */
  #enter(order: VerifiedOrder, quantity: number, rests: boolean): number {
    const { cancelsOwn } = this.#flow
    const { fills, gone, left } = this.#naive.enter(
      order,
      quantity,
      this.#nowSec,
      cancelsOwn,
      rests,
    )
    const matched = this.#step.filter(
      (event): event is OrdersMatched =>
        event.type === 'OrdersMatched' && event.taker.orderHash === order.orderHash,
    )
    const found = matched.flatMap((event) => event.fills)
    assert.deepEqual(
      found.map(({ makerHash, size, makerRemaining, price, kind }) => {
        return { maker: makerHash, size, makerRemaining, price, kind }
      }),
      fills,
    )
    if (fills.length > 0) assert.equal(matched.at(-1)?.takerRemaining, left)
    for (const orderHash of gone) this.#mayReturn.delete(orderHash)
    if (gone.some((hash) => this.#orders.get(hash)?.trader === order.trader)) this.counts.own++
    this.#mayReturn.add(order.orderHash)
    if (!rests) this.#mayReturn.delete(order.orderHash)
    for (const trade of matched.flatMap(tradesOf)) {
      this.counts[trade.kind ?? 'ordinary']++
      this.#trades.push(trade)
      this.#checkPrices(trade, order)
    }
    return fills.length
  }

  /**
   * Checks that the maker gets exactly its price, that the taker gets its limit or better, and that no unit is lost.
   */
  #checkPrices(trade: Trade, taker: VerifiedOrder): void {
    const { price, size, kind, buyOrderHash, sellOrderHash } = trade
    const [first, second] = [this.#orders.get(buyOrderHash)!, this.#orders.get(sellOrderHash)!]
    assert.deepEqual([first.side, first.outcome], Object.values(buyerLeg(trade)))
    assert.deepEqual([second.side, second.outcome], Object.values(sellerLeg(trade)))
    const maker = first.orderHash === taker.orderHash ? second : first
    assert.equal(price, maker.price)
    const takerPrice = kind === undefined ? price : ONE - price
    assert.ok(taker.side === BUY ? takerPrice <= taker.price : takerPrice >= taker.price)
    if (kind === undefined) return
    const rest = complementCost(price, size)
    assert.ok(rest >= 0 && costCeil(price, size) + rest === size)
    // Neither buyer of a mint pays more than was reserved for the order.
    if (kind === 'mint') assert.ok(rest <= costCeil(taker.price, size))
  }

  #cancel(): void {
    if (this.#known.length === 0) return
    const resting = this.#naive.resting
    const orderHash =
      resting.length > 0 && this.#random.chance(0.8)
        ? this.#random.pick(resting).order.orderHash
        : this.#random.pick(this.#known)
    const { side } = this.#orders.get(orderHash)!
    const message = { marketId: this.#opened.id, orderHash, side }
    const answer = market.CancelOrder(this.#state, message, this.#context())
    const found = this.#naive.find(orderHash)
    if (found !== undefined && Number(found.order.expiration) > this.#nowSec) {
      assert.ok(!isRejection(answer))
    }
    if (!isRejection(answer)) this.#mayReturn.delete(orderHash)
    this.#naive.remove(orderHash)
  }

  /**
   * Cancels all orders of a trader in both books, as a dead-man switch does, or only the trader's orders of one group.
   */
  #cancelMany(): void {
    const random = this.#random
    const grouped = this.#naive.resting.filter(({ order }) => this.#groups.has(order.orderHash))
    const aim = random.chance(0.5) && grouped.length > 0 ? random.pick(grouped).order : undefined
    const { trader } = aim ?? this.#order()
    const group = aim && this.#groups.get(aim.orderHash)
    const where = group === undefined ? { cause: 'deadman' as const } : { group }
    const message = { marketId: this.#opened.id, trader, ...where }
    const answer = market.CancelOrders(this.#state, message, this.#context())
    assert.ok(!isRejection(answer) && answer.more !== true)
    const ended = new Set(answer.orderHashes)
    for (const { order } of this.#naive.resting) {
      const { orderHash } = order
      if (order.trader !== trader) continue
      if (group !== undefined && this.#groups.get(orderHash) !== group) continue
      if (Number(order.expiration) > this.#nowSec) assert.ok(ended.delete(orderHash))
      this.#naive.remove(orderHash)
      this.#mayReturn.delete(orderHash)
      this.counts[group === undefined ? 'deadman' : 'group']++
    }
    // The orders left in `ended` were filled completely and have pending trades. If these trades fail now, no quantity
    // may return to the book.
    for (const orderHash of ended) {
      assert.ok(
        this.#trades.some((one) => [one.buyOrderHash, one.sellOrderHash].includes(orderHash)),
      )
      assert.ok(group === undefined || this.#groups.get(orderHash) === group)
      this.#mayReturn.delete(orderHash)
    }
  }

  /** Confirms a trade, or fails it by the fault of one side or of neither side. */
  #settle(): void {
    const random = this.#random
    const trade = this.#trades.splice(random.int(0, this.#trades.length - 1), 1)[0]
    if (trade === undefined) return
    const { tradeId, size, kind } = trade
    const first = this.#orders.get(trade.buyOrderHash)!
    const second = this.#orders.get(trade.sellOrderHash)!
    const report: TradeReport = {
      ...{ tradeId, size, buy: first, sell: second, txHash: '0xaa' },
      status: random.chance(0.4) ? 'confirmed' : 'failed',
      reason: 'InsufficientAllowance',
      fault: random.pick(['none', 'buyer', 'seller'] as const),
    }
    const message = { marketId: this.#opened.id, report }
    const answer = market.ReportTrade(this.#state, message, this.#context())
    assert.ok(!isRejection(answer), JSON.stringify(answer))
    if (report.status === 'confirmed') {
      this.#move(trade)
      return
    }
    assert.ok(
      this.#step.some((event) => event.type === 'TradeFailed'),
      String(kind),
    )
    const atFault = { none: undefined, buyer: first.trader, seller: second.trader }[
      report.fault as 'none'
    ] as string | undefined
    if (atFault !== undefined) this.#naive.removeOf(atFault as never)
    if (atFault !== undefined) {
      for (const { orderHash, trader } of this.#orders.values()) {
        if (trader === atFault && this.#wasClosed(orderHash)) this.#mayReturn.delete(orderHash)
      }
    }
    for (const order of [first, second]) {
      if (order.trader === atFault) continue
      this.#giveBack(order, size)
    }
  }

  #wasClosed(orderHash: OrderHash): boolean {
    return this.#step.some(
      (event) =>
        event.type === 'OrderClosed' &&
        event.orderHash === orderHash &&
        event.reason === 'unfunded',
    )
  }

  #giveBack(order: VerifiedOrder, size: Shares): void {
    if (Number(order.expiration) <= this.#nowSec) return
    const found = this.#naive.find(order.orderHash)
    if (found !== undefined) found.remaining += size
    else if (this.#mayReturn.has(order.orderHash)) this.#enter(order, size, true)
    else return
    this.counts.returned++
  }

  #passTime(): void {
    this.#nowMs += this.#random.int(0, 90_000)
    const nowSec = this.#nowSec
    market.Expire(this.#state, { marketId: this.#opened.id }, this.#context())
    for (const { order } of this.#naive.resting) {
      if (Number(order.expiration) > nowSec) continue
      this.#mayReturn.delete(order.orderHash)
      this.#naive.remove(order.orderHash)
    }
  }

  readonly #cash = new Map<string, number>()
  readonly #shares = new Map<string, number>()
  #collateral = 0

  /** Moves dollars and shares of a settled trade as the contract does. */
  #move(trade: Trade): void {
    const { kind, size, buyer, seller } = trade
    const add = (to: Map<string, number>, key: string, amount: number) =>
      void to.set(key, (to.get(key) ?? 0) + amount)
    const legs = [
      [buyer, buyerLeg(trade), buyerAmount(trade)],
      [seller, sellerLeg(trade), sellerAmount(trade)],
    ] as const
    for (const [trader, { side, outcome }, cost] of legs) {
      add(this.#cash, trader, side === BUY ? -cost : cost)
      add(this.#shares, `${trader} ${outcome}`, side === BUY ? size : -size)
    }
    this.#collateral += kind === 'mint' ? size : kind === 'merge' ? -size : 0
    const sum = (of: Map<string, number>, end: string) =>
      [...of].reduce((total, [key, amount]) => total + (key.endsWith(end) ? amount : 0), 0)
    assert.equal(sum(this.#cash, '') + this.#collateral, 0, 'dollars are conserved')
    assert.equal(sum(this.#shares, ' 0'), this.#collateral, 'YES shares are conserved')
    assert.equal(sum(this.#shares, ' 1'), this.#collateral, 'NO shares are conserved')
  }

  /** Replaces the books by copies made through snapshots. */
  #restore(): void {
    const books = this.#state.books.map((book) =>
      Book.restore(
        book.beginSnapshot().copySome(Number.MAX_SAFE_INTEGER),
        bookOptions(this.#rules, this.#opened),
      ),
    )
    this.#state = { ...this.#state, books: books as never }
  }

  #compare(whole: boolean): void {
    const { books } = this.#state
    const [yes, no] = books
    assert.ok(yes.bestAsk === 0 || yes.bestBid < yes.bestAsk)
    assert.ok(no.bestAsk === 0 || no.bestBid < no.bestAsk)
    assert.ok(yes.bestBid === 0 || no.bestBid === 0 || yes.bestBid + no.bestBid < ONE)
    assert.ok(yes.bestAsk === 0 || no.bestAsk === 0 || yes.bestAsk + no.bestAsk > ONE)
    assert.equal(yes.count + no.count, this.#naive.resting.length)
    if (!whole) return
    assert.ok(!this.#naive.isCrossed())
    for (const { order, remaining } of this.#naive.resting) {
      assert.equal(books[order.outcome].find(order.orderHash)?.remaining, remaining)
    }
    for (const outcome of OUTCOMES) {
      for (const side of [0, 1] as const) {
        // The naive list is in order of arrival; a stable sort by price gives price-time priority.
        const mine = this.#naive.resting
          .filter(({ order }) => order.outcome === outcome && order.side === side)
          .sort(
            (a, b) =>
              (side === BUY ? b.order.price - a.order.price : a.order.price - b.order.price) ||
              a.arrival - b.arrival,
          )
          .map(({ order }) => order.orderHash)
        assert.deepEqual(
          [...books[outcome].orders(side)].map(({ orderHash }) => orderHash),
          mine,
        )
      }
    }
  }

  /** Encodes and decodes the events as the log does, and checks that a replay gives the same market. */
  #replay(): void {
    const recall = { closed: new Map(), trades: new Map() }
    const fresh = newMarket(this.#opened, this.#rules, recall)
    for (const event of this.#events) {
      const text = new JsonBytes()
      PACKED.write(event, undefined, text)
      for (const read of PACKED.read([JSON.parse(text.bytes.toString('utf8'))])) apply(fresh, read)
    }
    assert.equal(stateHashOf(fresh), stateHashOf(this.#state))
    for (const { order } of this.#naive.resting) {
      const arrivals = [fresh, this.#state].map(({ books }) => {
        const book = books[order.outcome]
        return book.arrivalOf(book.locate(order.orderHash))
      })
      assert.equal(arrivals[0], arrivals[1])
    }
  }
}

const flows: Record<string, Flow> = {
  'on few prices': { ticks: 4, sizeMax: 40, cancelsOwn: false },
  'on many prices, with own orders cancelled': { ticks: 140, sizeMax: 5_000_000, cancelsOwn: true },
}

for (const [name, flow] of Object.entries(flows)) {
  test(`a complementary market gives the same results as a simple reference model (${name})`, () => {
    withSeeds([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], (random) =>
      new Pair(random, flow).run(sampleOf(OPERATIONS, SAMPLE)),
    )
  })
}
