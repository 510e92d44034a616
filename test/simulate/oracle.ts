/**
 * Checks the invariants. Every answer is compared with the log, and the log with the rules of the market. An answer is
 * wrong if no state of the log between its request and its arrival allows it.
 */

import {
  type Address,
  type MarketId,
  type OrderHash,
  parseTradeId,
  type TradeId,
} from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { expiresAtSec, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { MarketView, OrderAccepted, OrderCancelled } from '#protocol/market.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import { isUnanswered, type Unanswered } from '#runtime/channel.ts'
import { digestOf, type KnownOrder, type KnownTrade, MarketModel, short } from './market-model.ts'
import { type Scheduler, Violation } from './scheduler.ts'

/** Rejections that are not final: the same request may succeed later. */
const TRANSIENT = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN', 'RATE_LIMITED'])

/** All requests for one order. */
type Attempts = {
  /** Number of requests that may have placed the order: all requests that were not finally refused. */
  possible: number
  /** Number of answers that accepted the order as new. */
  accepted: number
  /** True if a cancel is no violation: a client requested it, or the order is IOC, FOK or belongs to a session. */
  cancellable: boolean
}

export type Pending = { readonly sentUs: number; readonly seqs: ReadonlyMap<MarketId, number> }

export function isFinal(answer: unknown): boolean {
  if (isUnanswered(answer)) return false
  return !isRejection(answer) || !TRANSIENT.has(answer.rejected)
}

export class Oracle {
  readonly markets = new Map<MarketId, MarketModel>()
  /** All trades, in the order of their matches. */
  readonly #trades: KnownTrade[] = []
  readonly #scheduler: Scheduler
  readonly #selfTrade: 'allow' | 'cancel-resting'
  readonly #attempts = new Map<OrderHash, Attempts>()
  readonly #cancelledTraders = new Set<Address>()
  /** Called with each durable event, after it was applied. */
  onEvent: (event: MarketEvent) => void = () => {}
  readonly counts = { events: 0, accepted: 0, refused: 0, unknown: 0, cancelled: 0, views: 0 }

  constructor(scheduler: Scheduler, selfTrade: 'allow' | 'cancel-resting') {
    this.#scheduler = scheduler
    this.#selfTrade = selfTrade
  }

  /** Applies events that have become durable. */
  landed(partition: number, events: readonly MarketEvent[]): void {
    for (const event of events) {
      this.counts.events++
      this.#scheduler.trace(`log ${partition}: ${lineOf(event)}`)
      let model = this.markets.get(event.marketId)
      if (model === undefined && event.type === 'MarketOpened') {
        model = new MarketModel(event.market, this.#selfTrade)
        this.markets.set(event.marketId, model)
      }
      if (model === undefined) throw new Violation('market-known', lineOf(event))
      model.apply(event, this.#scheduler.nowUs)
      if (event.type === 'OrdersMatched') this.#trades.push(...model.tradesOf(event))
      this.#checkCause(event)
      this.onEvent(event)
    }
  }

  /** Checks that an order enters the log, or is cancelled, only on request. */
  #checkCause(event: MarketEvent): void {
    const placed = placedBy(event)
    if (placed !== undefined && (this.#attempts.get(placed.orderHash)?.possible ?? 0) === 0) {
      throw new Violation(
        'placed-on-request',
        `${short(placed.orderHash)} was refused, or never sent`,
      )
    }
    if (event.type !== 'OrderClosed' || event.reason !== 'cancelled') return
    const isAsked = this.#attempts.get(event.orderHash)?.cancellable === true
    if (isAsked || this.#cancelledTraders.has(event.trader)) return
    throw new Violation('cancelled-on-request', `${short(event.orderHash)} was cancelled`)
  }

  /** Returns the state of the log at the time of a request. */
  asked(): Pending {
    const seqs = new Map([...this.markets].map(([id, { seq }]) => [id, seq]))
    return { sentUs: this.#scheduler.nowUs, seqs }
  }

  #attemptsOf(orderHash: OrderHash): Attempts {
    let attempts = this.#attempts.get(orderHash)
    if (attempts === undefined) {
      attempts = { possible: 0, accepted: 0, cancellable: false }
      this.#attempts.set(orderHash, attempts)
    }
    return attempts
  }

  /** Records that a client sends a request to place the order. */
  placing(
    { orderHash }: VerifiedOrder,
    how: { timeInForce?: TimeInForce; session?: string },
  ): void {
    const attempts = this.#attemptsOf(orderHash)
    attempts.possible++
    const { timeInForce, session } = how
    if (timeInForce === 'IOC' || timeInForce === 'FOK' || session !== undefined) {
      attempts.cancellable = true
    }
  }

  cancelling(orderHash: OrderHash): void {
    this.#attemptsOf(orderHash).cancellable = true
  }

  cancellingAll(trader: Address): void {
    this.#cancelledTraders.add(trader)
  }

  #known(order: Pick<VerifiedOrder, 'marketId' | 'orderHash'>): KnownOrder | undefined {
    return this.markets.get(order.marketId)?.orders.get(order.orderHash)
  }

  /** Returns whether the order was open from the request until now, and has not expired. */
  #isOpenSince(known: KnownOrder | undefined, { sentUs }: Pending): boolean {
    if (known === undefined || known.openedUs >= sentUs || known.ended !== undefined) return false
    return expiresAtSec(known.order.expiration) * 1_000 > this.#scheduler.nowMs + 1_000
  }

  placed(
    order: VerifiedOrder,
    pending: Pending,
    answer: OrderAccepted | Rejection | Unanswered,
  ): void {
    const { orderHash } = order
    const known = this.#known(order)
    const attempts = this.#attemptsOf(orderHash)
    if (!isFinal(answer)) {
      this.counts.unknown++
      return
    }
    if (isRejection(answer)) {
      this.counts.refused++
      attempts.possible--
      const { rejected } = answer
      if (this.#isOpenSince(known, pending)) {
        throw new Violation(
          'resend-safe',
          `${short(orderHash)} is open, but was refused: ${rejected}`,
        )
      }
      if (rejected === 'ORDER_CLOSED') this.#checkEnded(order)
      else if (known !== undefined && attempts.possible === 0 && attempts.accepted === 0) {
        throw new Violation(
          'refused-not-logged',
          `${short(orderHash)}: ${rejected}, but it is logged`,
        )
      }
      return
    }
    this.#accepted(order, pending, answer as OrderAccepted)
  }

  #accepted(order: VerifiedOrder, { sentUs }: Pending, answer: OrderAccepted): void {
    const { orderHash } = order
    const name = short(orderHash)
    const known = this.#known(order)
    this.counts.accepted++
    if (known === undefined) {
      throw new Violation('accepted-logged', `${name} was accepted, but is not in the log`)
    }
    const { matches, placedAtMs, landedUs } = known
    if (answer.matches !== matches || answer.timestamp !== Math.floor(placedAtMs / 1_000)) {
      const told = `${answer.matches} matches at ${answer.timestamp}`
      throw new Violation(
        'answer-agrees',
        `${name}: ${told}, but the log has ${matches} at ${placedAtMs}`,
      )
    }
    if (answer.filled !== undefined && answer.filled !== known.filledAtOnce) {
      throw new Violation(
        'answer-agrees',
        `${name}: filled ${answer.filled}, not ${known.filledAtOnce}`,
      )
    }
    if (answer.duplicate) return
    const attempts = this.#attemptsOf(orderHash)
    attempts.accepted++
    if (attempts.accepted > 1 || landedUs < sentUs) {
      throw new Violation(
        'accepted-once',
        `${name} was accepted as new although it was logged before`,
      )
    }
  }

  #checkEnded(order: Pick<VerifiedOrder, 'marketId' | 'orderHash'>): void {
    const known = this.#known(order)
    if (known !== undefined && known.ended !== undefined) return
    const state = known === undefined ? 'not in the log' : 'open'
    throw new Violation(
      'closed-logged',
      `${short(order.orderHash)} is ${state}, but the answer is ORDER_CLOSED`,
    )
  }

  cancelled(
    order: VerifiedOrder,
    pending: Pending,
    answer: OrderCancelled | Rejection | Unanswered,
  ): void {
    if (!isFinal(answer) || isUnanswered(answer)) return
    const known = this.#known(order)
    if (!isRejection(answer)) {
      this.counts.cancelled++
      this.#checkEnded(order)
    } else if (answer.rejected === 'ORDER_CLOSED') {
      this.#checkEnded(order)
    } else if (this.#isOpenSince(known, pending)) {
      const told = `${short(order.orderHash)} is open, but its cancel was refused: ${answer.rejected}`
      throw new Violation('cancel-finds', told)
    }
  }

  recalled(
    order: VerifiedOrder,
    pending: Pending,
    answer: OrderAccepted | Rejection | Unanswered | { readonly unknown: true },
  ): void {
    if (!isFinal(answer)) return
    const isUnknown = 'unknown' in answer || isRejection(answer)
    if (isUnknown && this.#isOpenSince(this.#known(order), pending)) {
      throw new Violation('recall-finds', `${short(order.orderHash)}: ${JSON.stringify(answer)}`)
    }
    if ('status' in answer && this.#known(order) === undefined) {
      throw new Violation(
        'accepted-logged',
        `${short(order.orderHash)} was recalled, but is not logged`,
      )
    }
  }

  cancelledAll(marketId: MarketId, orderHashes: readonly OrderHash[]): void {
    for (const orderHash of orderHashes) this.#checkEnded({ marketId, orderHash })
  }

  /**
   * Checks a session after its end is confirmed. No order that was placed in the session before the end request may
   * still be open.
   */
  sessionEnded(orders: readonly VerifiedOrder[], pending: Pending): void {
    for (const order of orders) {
      const known = this.#known(order)
      if (!this.#isOpenSince(known, pending)) continue
      throw new Violation('session-over', `${short(order.orderHash)} is open after its session`)
    }
  }

  /**
   * Checks that the books in a view of a market equal the log's books at the view's `seq`, and that the view is
   * current.
   */
  viewed(view: MarketView, pending: Pending | undefined, who: string): void {
    this.counts.views++
    const { id } = view.market
    const books = [0, 1].map((outcome) => [view.bids[outcome]!, view.asks[outcome]!])
    this.checkBook(id, view.seq, digestOf(books), who)
    const before = pending?.seqs.get(id) ?? 0
    if (view.seq < before) {
      throw new Violation(
        'view-current',
        `${who}: ${id.slice(-4)} at ${view.seq}, logged before: ${before}`,
      )
    }
  }

  checkBook(id: MarketId, seq: number, found: string, who: string): void {
    const model = this.markets.get(id)
    if (model === undefined || seq > model.seq) {
      throw new Violation(
        'view-logged',
        `${who}: ${id.slice(-4)} at ${seq}, the log ends at ${model?.seq}`,
      )
    }
    const expected = model.digest(seq)
    if (expected === undefined || expected === found) return
    throw new Violation(
      'book-agrees',
      `${who}: ${id.slice(-4)} at ${seq} is ${found}, not ${expected}`,
    )
  }

  /**
   * Checks that each listed order is open in the log. If the page is complete, also checks that it lists all open
   * orders of the trader.
   */
  listed(trader: Address, { sentUs }: Pending, { orders, count }: OrdersPage): void {
    const found = new Set(orders.map(({ orderHash }) => orderHash))
    for (const { orderHash, marketId } of orders) {
      const known = this.#known({ orderHash, marketId })
      const isOpen = known !== undefined && (known.ended === undefined || known.endedUs >= sentUs)
      if (!isOpen) throw new Violation('listed-open', `${short(orderHash)} is listed as open`)
    }
    if (count > orders.length) return
    for (const model of this.markets.values()) {
      for (const orderHash of model.openOrders(trader)) {
        const known = model.orders.get(orderHash)
        if (found.has(orderHash) || !this.#isOpenSince(known, { sentUs, seqs: new Map() })) continue
        throw new Violation('open-listed', `${short(orderHash)} is open and not listed`)
      }
    }
  }

  /** Returns whether the order is open or has an undecided trade. */
  isLive(orderHash: OrderHash): boolean {
    return [...this.markets.values()].some((model) => model.isLive(orderHash))
  }

  allTrades(): KnownTrade[] {
    return [...this.markets.values()].flatMap(({ trades }) => [...trades.values()])
  }

  /** Returns the newest trades that have not failed, at most `count`. */
  newestTrades(count: number): KnownTrade[] {
    const found: KnownTrade[] = []
    for (let at = this.#trades.length - 1; at >= 0 && found.length < count; at--) {
      const trade = this.#trades[at]!
      if (trade.status !== 'failed') found.push(trade)
    }
    return found
  }

  tradeOf(tradeId: string): KnownTrade | undefined {
    const marketId = parseTradeId(tradeId)?.marketId
    if (marketId === undefined) return undefined
    return this.markets.get(marketId)?.trades.get(tradeId as TradeId)
  }
}

/** Returns the order that this event records for the first time; undefined if the event records no new order. */
export function placedBy(event: MarketEvent): VerifiedOrder | undefined {
  if (event.type === 'OrderRested') return event.order
  return event.type === 'OrdersMatched' && !event.known ? event.taker : undefined
}

function lineOf(event: MarketEvent): string {
  const head = `${event.marketId.slice(-4)}/${event.seq} ${event.type}`
  switch (event.type) {
    case 'OrderRested':
      return `${head} ${short(event.orderHash)} +${event.added} = ${event.remaining} at ${event.price}`
    case 'OrdersMatched':
      return `${head} ${short(event.taker.orderHash)} with ${event.fills.map(({ makerHash, size }) => `${short(makerHash)} ${size}`).join(', ')}`
    case 'OrderClosed':
      return `${head} ${short(event.orderHash)} ${event.reason} ${event.remaining}`
    case 'MarketOpened':
      return head
    case 'MarketClosed':
      return `${head} ${event.reason}`
    default:
      return `${head} ${event.tradeId.slice(62)}`
  }
}
