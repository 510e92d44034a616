/**
 * Model of one market, computed from the market's log with naive books. Checks that each event is allowed by the events
 * before it: gapless numbers, price-time priority, no crossed book, no order placed twice, no quantity returned twice.
 */

import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type {
  MarketEvent,
  OrderClosed,
  OrderRested,
  OrdersMatched,
  TradeOutcome,
} from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, OUTCOMES, SELL, type VerifiedOrder } from '#domain/order.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { NaiveBook } from '../support/naive-book.ts'
import { Violation } from './scheduler.ts'

export type KnownOrder = {
  readonly order: VerifiedOrder
  readonly placedAtMs: number
  /** Time at which the order's first event became durable. */
  readonly landedUs: number
  /** Its first answer. */
  matches: number
  /** Quantity that was matched on arrival. */
  filledAtOnce: number
  /**
   * Reason why the order ended. Undefined while the order rests; `arriving` until the events of its placement are
   * complete.
   */
  ended: OrderClosed['reason'] | 'market-closed' | 'arriving' | undefined
  endedUs: number
  /** Time at which the order came to rest or returned to the book. */
  openedUs: number
  /** Quantity that failed trades may return. */
  credit: number
}

export type KnownTrade = {
  readonly tradeId: TradeId
  readonly price: Price
  readonly size: Shares
  readonly buy: VerifiedOrder
  readonly sell: VerifiedOrder
  status: TradeStatus
  txHash: string
}

/** Maximum number of book digests that are kept per market. */
const DIGESTS_MAX = 4_096

export class MarketModel {
  readonly market: Market
  readonly orders = new Map<OrderHash, KnownOrder>()
  readonly trades = new Map<TradeId, KnownTrade>()
  /** Trades that are neither confirmed nor failed. */
  readonly undecided = new Set<KnownTrade>()
  readonly #tradesOf = new Map<OrderHash, KnownTrade[]>()
  readonly #books = [new NaiveBook(), new NaiveBook()] as const
  readonly #digests = new Map<number, string>()
  readonly #selfTrade: 'allow' | 'cancel-resting'
  seq = 0
  atMs = 0
  closed: string | undefined

  constructor(market: Market, selfTrade: 'allow' | 'cancel-resting') {
    this.market = market
    this.#selfTrade = selfTrade
  }

  get id(): MarketId {
    return this.market.id
  }

  /**
   * Returns the levels of both books after the event with this number. Returns undefined if the event is not logged, or
   * too old.
   */
  digest(seq: number): string | undefined {
    return this.#digests.get(seq)
  }

  /** Quantity of an order that rests. */
  remainingOf(orderHash: OrderHash): number {
    return this.#books.reduce((sum, book) => sum + (book.find(orderHash)?.remaining ?? 0), 0)
  }

  /** True if the order rests, or has an undecided trade. */
  isLive(orderHash: OrderHash): boolean {
    const known = this.orders.get(orderHash)
    return known !== undefined && (known.ended === undefined || this.#pendingOf(orderHash) > 0)
  }

  /** Trades of an event of this market. */
  tradesOf({ seq, fills }: OrdersMatched): KnownTrade[] {
    return fills.map((_, index) => this.trades.get(tradeId(this.id, seq, index))!)
  }

  openOrders(trader: Address): OrderHash[] {
    return this.#books
      .flatMap(({ bids, asks }) => [...bids, ...asks])
      .filter((resting) => resting.trader === trader)
      .map(({ orderHash }) => orderHash)
  }

  apply(event: MarketEvent, nowUs: number): void {
    this.#check(event.seq === this.seq + 1, 'seq-gapless', `${event.seq} comes after ${this.seq}`)
    this.#check(event.atMs >= this.atMs, 'clock-forward', `${event.atMs} comes after ${this.atMs}`)
    this.seq = event.seq
    this.atMs = event.atMs
    if (event.type === 'OrderRested') this.#rested(event, nowUs)
    else if (event.type === 'OrdersMatched') this.#matched(event, nowUs)
    else if (event.type === 'OrderClosed') this.#ended(event, nowUs)
    else if (event.type === 'MarketClosed') this.#marketClosed(event.reason, nowUs)
    else if (event.type !== 'MarketOpened') this.#traded(event)
    this.#digests.set(this.seq, this.#levels())
    this.#digests.delete(this.seq - DIGESTS_MAX)
  }

  #check(holds: boolean, invariant: string, detail: string): asserts holds {
    if (!holds) throw new Violation(invariant, `market ${this.id.slice(-4)}: ${detail}`)
  }

  #levels(): string {
    return digestOf(
      OUTCOMES.map((outcome) =>
        ([BUY, SELL] as const).map((side) => {
          const levels = new Map<number, bigint>()
          for (const { price, remaining } of this.#books[outcome].side(side)) {
            levels.set(price, (levels.get(price) ?? 0n) + BigInt(remaining))
          }
          return [...levels]
        }),
      ),
    )
  }

  #known(orderHash: OrderHash): KnownOrder {
    const known = this.orders.get(orderHash)
    this.#check(known !== undefined, 'order-known', `${short(orderHash)} has no first event`)
    return known
  }

  #enter(order: VerifiedOrder, event: MarketEvent, nowUs: number): KnownOrder {
    const { orderHash } = order
    this.#check(!this.orders.has(orderHash), 'order-once', `${short(orderHash)} was placed twice`)
    this.#check(this.closed === undefined, 'closed-market', `${short(orderHash)} was accepted`)
    const first = {
      matches: 0,
      filledAtOnce: 0,
      ended: 'arriving',
      endedUs: 0,
      openedUs: 0,
      credit: 0,
    } as const
    const known: KnownOrder = { order, placedAtMs: event.atMs, landedUs: nowUs, ...first }
    this.orders.set(orderHash, known)
    return known
  }

  #rested(event: OrderRested, nowUs: number): void {
    const { orderHash, added, remaining } = event
    const known =
      event.order === undefined ? this.#known(orderHash) : this.#enter(event.order, event, nowUs)
    const book = this.#books[event.outcome]
    const resting = book.find(orderHash)
    const before = resting?.remaining ?? 0
    this.#check(
      before + added === remaining && remaining <= event.size,
      'quantity',
      `${short(orderHash)} rests with ${remaining}: ${before} rested and ${added} were added`,
    )
    if (added === 0) return
    if (event.returned) this.#spend(known, added)
    if (resting === undefined) book.rest({ ...event, remaining: remaining as Shares })
    else resting.remaining = remaining
    if (known.ended !== undefined) known.openedUs = nowUs
    known.ended = undefined
    const nowSec = Math.floor(event.atMs / 1_000)
    const live = (order: { expiresAtSec: number } | undefined) =>
      order !== undefined && order.expiresAtSec > nowSec
    const [bid, ask] = [book.bids.find(live), book.asks.find(live)]
    const isCrossed = bid !== undefined && ask !== undefined && bid.price >= ask.price
    this.#check(!isCrossed, 'crossed', `bid ${bid?.price} meets ask ${ask?.price}`)
  }

  /**
   * Records that an order got quantity back from its failed trades. Reports a violation if this quantity exceeds the
   * size of those trades. Also reports one if the order had ended in any way other than filled.
   */
  #spend(known: KnownOrder, quantity: number): void {
    const isAlive = known.ended === undefined || known.ended === 'filled'
    this.#check(isAlive, 'returned-to-ended', `${short(known.order.orderHash)} is ${known.ended}`)
    known.credit -= quantity
    this.#check(
      known.credit >= 0,
      'returned-once',
      `${short(known.order.orderHash)} got ${-known.credit} more than its failed trades had`,
    )
  }

  #matched(event: OrdersMatched, nowUs: number): void {
    const { taker, fills } = event
    const known = event.known ? this.#known(taker.orderHash) : this.#enter(taker, event, nowUs)
    const nowSec = Math.floor(event.atMs / 1_000)
    const matched = fills.reduce((sum, { size }) => sum + size, 0)
    const returned = event.known && known.ended !== 'arriving'
    if (returned) this.#spend(known, matched)
    const rules = { nowSec, selfTrade: this.#selfTrade, makersMax: fills.length }
    const { price, side, trader } = taker
    const expected = this.#books[taker.outcome].match(
      { price, side, trader, size: matched as Shares },
      rules,
    )
    const told = expected.fills.map(({ orderHash, taken, remaining }) => [
      orderHash,
      taken,
      remaining,
    ])
    const logged = fills.map(({ makerHash, size, makerRemaining }) => [
      makerHash,
      size,
      makerRemaining,
    ])
    this.#check(
      JSON.stringify(told) === JSON.stringify(logged) && expected.left === 0,
      'price-time',
      `${short(taker.orderHash)} matched ${JSON.stringify(logged)}, not ${JSON.stringify(told)}`,
    )
    if (!returned) {
      known.matches += fills.length
      known.filledAtOnce += matched
    }
    for (const [index, { makerHash, size, price: at }] of fills.entries()) {
      const maker = this.#known(makerHash)
      const id = tradeId(this.id, event.seq, index)
      const [buy, sell] = side === BUY ? [taker, maker.order] : [maker.order, taker]
      const trade: KnownTrade = {
        ...{ tradeId: id, price: at, size, buy, sell },
        ...{ status: 'matched', txHash: '' },
      }
      this.trades.set(id, trade)
      this.undecided.add(trade)
      for (const { orderHash } of [buy, sell]) {
        const trades = this.#tradesOf.get(orderHash)
        if (trades === undefined) this.#tradesOf.set(orderHash, [trade])
        else trades.push(trade)
      }
    }
  }

  #ended(event: OrderClosed, nowUs: number): void {
    const { orderHash, reason, remaining } = event
    const known = this.#known(orderHash)
    const removed = this.#books[event.outcome].remove(orderHash)
    const rested = removed?.remaining ?? 0
    this.#check(
      rested === remaining,
      'closed-once',
      `${short(orderHash)} ended (${reason}) with ${remaining}, but ${rested} rested`,
    )
    if (reason === 'cancelled') {
      const pending = this.#pendingOf(orderHash)
      const told = event.pending ?? 0
      this.#check(told === pending, 'pending', `${short(orderHash)}: ${told}, not ${pending}`)
    }
    const isDue = expiresAtSec(known.order.expiration) <= Math.floor(event.atMs / 1_000)
    this.#check(reason !== 'expired' || isDue, 'expired-early', short(orderHash))
    known.ended = reason
    known.endedUs = nowUs
  }

  /** Returns the quantity of an order in trades that the chain has not decided. */
  #pendingOf(orderHash: OrderHash): number {
    let pending = 0
    for (const { size, status } of this.#tradesOf.get(orderHash) ?? []) {
      if (status !== 'confirmed' && status !== 'failed') pending += size
    }
    return pending
  }

  #marketClosed(reason: string, nowUs: number): void {
    this.closed = reason
    for (const book of this.#books) {
      book.bids = []
      book.asks = []
    }
    for (const known of this.orders.values()) {
      if (known.ended !== undefined) continue
      known.ended = 'market-closed'
      known.endedUs = nowUs
    }
  }

  #traded(event: TradeOutcome): void {
    const trade = this.trades.get(event.tradeId)
    this.#check(trade !== undefined, 'trade-known', `${event.tradeId} was never matched`)
    const status = event.type.slice('Trade'.length).toLowerCase() as TradeStatus
    const isPending = trade.status !== 'confirmed' && trade.status !== 'failed'
    const allowed = status === 'reverted' ? trade.status === 'confirmed' : isPending
    this.#check(allowed, 'trade-status', `${event.tradeId} became ${status} after ${trade.status}`)
    trade.status = status
    trade.txHash = event.txHash
    if (status === 'confirmed' || status === 'failed') this.undecided.delete(trade)
    else this.undecided.add(trade)
    const { buy, sell, size } = trade
    if (event.type !== 'TradeFailed') return
    const { fault, excused } = event
    // Each side that is not at fault gets its quantity back. The exception is an excused seller, who lacked shares only
    // because an earlier purchase is pending or failed. This seller is not at fault, but gets no quantity back.
    const atFault = new Set<Address>()
    if (fault === 'buyer' || fault === 'both') atFault.add(buy.trader)
    if ((fault === 'seller' || fault === 'both') && excused === undefined) atFault.add(sell.trader)
    for (const order of excused === undefined ? [buy, sell] : [buy]) {
      if (!atFault.has(order.trader)) this.#known(order.orderHash).credit += size
    }
  }
}

/** Returns the levels as text, by outcome and side, best level first. */
export function digestOf(
  books: readonly (readonly (readonly (readonly [price: number, size: number | bigint])[])[])[],
): string {
  return books
    .map((sides) => sides.map((levels) => levels.map(([p, s]) => `${p}x${s}`).join(',')).join('|'))
    .join('/')
}

export function short(hash: string): string {
  return hash.slice(2, 10)
}
