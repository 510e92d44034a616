/**
 * Pending trades of a market, which the chain has neither settled nor rejected yet. They determine which quantity of an
 * order may return to the book, and how many trades of a trader are pending. They also show whether a seller's tokens
 * are missing only because a purchase is pending or has failed. This state is derived from events alone, so a replay
 * gives the same result. A snapshot contains the state as rows.
 */

import {
  type Address,
  type MarketId,
  type OrderHash,
  parseTradeId,
  type Sequence,
  type TradeId,
  tradeId,
} from '#domain/ids.ts'
import { MAKERS_PER_EVENT_MAX } from '#domain/limits.ts'
import type { MarketEvent, OrdersMatched, PendingTrade, TradeFailed } from '#domain/market-event.ts'
import { isTakerBuyer, makerOutcome } from '#domain/match-trades.ts'
import { BUY, type Outcome } from '#domain/order.ts'
import { buyerLeg, sellerLeg } from '#domain/trade-legs.ts'

/** Number of pending trades of each trader on a chain, in all markets of a thread. */
export class PendingCounts {
  readonly #traders = new Map<Address, number>()
  /** For each trader, the number of pending trades for whose settlement the trader is charged. */
  readonly #paying = new Map<Address, number>()
  #total = 0

  /** Trades in all. */
  get total(): number {
    return this.#total
  }

  of(trader: Address): number {
    return this.#traders.get(trader) ?? 0
  }

  /** Adds or removes one trade. Buyer and seller may be the same trader. */
  count({ buyer, seller, payer }: PendingTrade, by: 1 | -1): void {
    this.#total += by
    add(this.#traders, buyer, by)
    if (seller !== buyer) add(this.#traders, seller, by)
    if (payer !== undefined) add(this.#paying, payer === 'buyer' ? buyer : seller, by)
  }

  /** Returns the number of pending trades whose settlement is charged to the trader. */
  paidBy(trader: Address): number {
    return this.#paying.get(trader) ?? 0
  }

  all(): ReadonlyMap<Address, number> {
    return this.#traders
  }
}

function add(counts: Map<Address, number>, trader: Address, by: 1 | -1): void {
  const count = (counts.get(trader) ?? 0) + by
  if (count === 0) counts.delete(trader)
  else counts.set(trader, count)
}

/** Pending trades of a trader in this market. */
type TraderPending = {
  /** Total size of the pending trades of each order. */
  readonly orders: Map<OrderHash, number>
  /** Keys (`keyOf`) of pending trades in which the trader bought from others, in the order of matching. */
  readonly buys: Set<number>
}

/** Tokens that a trader bought and did not receive, through no fault of the trader. */
type LostBuy = {
  readonly trader: Address
  readonly outcome: Outcome
  readonly key: number
  readonly atMs: number
  /**
   * Number of lost shares that have not excused a failed sale yet. A sale that fails because the trader lacks these
   * shares is not the trader's fault.
   */
  left: number
}

/** Row of pending trades or failed purchases in a snapshot. */
export type PendingRow =
  | readonly ['trade', key: number, trade: PendingTrade, excused: number]
  | readonly ['lost', key: number, lost: Omit<LostBuy, 'key'>]

/**
 * A purchase that failed without the buyer's fault excuses the buyer's failed sales of the same tokens for this time.
 */
const EXCUSED_FOR_MS = 10 * 60_000
/** Maximum number of failed purchases kept per market; the oldest are dropped. */
const LOST_BUYS_MAX = 1_000

export class PendingTrades {
  readonly #trades = new Map<number, PendingTrade>()
  readonly #traders = new Map<Address, TraderPending>()
  /**
   * For each pending purchase: size of the buyer's failed sales that this purchase has already excused (the buyer was
   * not blamed). In a mint, both sides buy, and they share one value.
   */
  readonly #excused = new Map<number, number>()
  readonly #counts: PendingCounts
  /**
   * False if the exchange does not settle trades on this market's chain. Such trades would stay pending forever, so
   * none is remembered.
   */
  readonly #isSettled: boolean
  #lost: LostBuy[] = []

  constructor(counts: PendingCounts, isSettled: boolean) {
    this.#counts = counts
    this.#isSettled = isSettled
  }

  get size(): number {
    return this.#trades.size
  }

  get counts(): PendingCounts {
    return this.#counts
  }

  /** Returns whether the trader has a pending trade in this market. */
  has(trader: Address): boolean {
    return this.#traders.has(trader)
  }

  /** Returns the trader who is charged for the settlement of a pending trade. */
  payerOf(tradeId: TradeId): Address | undefined {
    const trade = this.#trades.get(keyOf(tradeId))
    return trade?.payer === undefined ? undefined : trade[trade.payer]
  }

  /** Returns the total size of an order's trades that are not settled yet. */
  sizeOf(trader: Address, orderHash: OrderHash): number {
    return this.#traders.get(trader)?.orders.get(orderHash) ?? 0
  }

  /** Returns the trader's orders with pending trades. */
  ordersOf(trader: Address): OrderHash[] {
    return [...(this.#traders.get(trader)?.orders.keys() ?? [])]
  }

  /** Yields the pending trades of a trader, the oldest first, with their ids in this market. */
  *of(
    trader: Address,
    marketId: MarketId,
  ): Generator<{ readonly tradeId: TradeId; readonly trade: PendingTrade }, void> {
    if (!this.#traders.has(trader)) return
    for (const [key, trade] of this.#trades) {
      if (trade.buyer !== trader && trade.seller !== trader) continue
      const sequence = Math.floor(key / MAKERS_PER_EVENT_MAX)
      yield { tradeId: tradeId(marketId, sequence, key % MAKERS_PER_EVENT_MAX), trade }
    }
  }

  /** Applies an event of the market; returns the trade that ended with it, if known. */
  follow(event: MarketEvent): PendingTrade | undefined {
    switch (event.type) {
      case 'OrdersMatched':
        if (this.#isSettled) this.#match(event)
        return undefined
      case 'TradeConfirmed':
        return this.#end(keyOf(event.tradeId))
      case 'TradeFailed':
        return this.#fail(event)
      case 'TradeReverted':
        if (event.trade !== undefined) this.#add(keyOf(event.tradeId), event.trade)
        return undefined
      default:
        return undefined
    }
  }

  /**
   * Returns whether other traders owe the seller tokens of this outcome. They do if an earlier purchase by the seller
   * is pending, or failed recently through no fault of the seller. Only purchases matched before this sale count.
   */
  isOwed(trade: { seller: Address; outcome: Outcome; tradeId: string }, nowMs: number): boolean {
    const { seller, outcome } = trade
    const before = keyOf(trade.tradeId)
    for (const lost of this.#lostOf(seller, outcome, before, nowMs)) if (lost.left > 0) return true
    for (const key of this.#buysOf(seller, outcome, before)) if (this.#leftOf(key) > 0) return true
    return false
  }

  rows(): PendingRow[] {
    const rows: PendingRow[] = []
    for (const [key, trade] of this.#trades) {
      rows.push(['trade', key, trade, this.#excused.get(key) ?? 0])
    }
    for (const { key, ...lost } of this.#lost) rows.push(['lost', key, lost])
    return rows
  }

  restore(rows: readonly PendingRow[]): void {
    if (!this.#isSettled) return
    for (const row of rows) {
      if (row[0] === 'lost') this.#lost.push({ ...row[2], key: row[1] })
      else {
        this.#add(row[1], row[2])
        if (row[3] > 0) this.#excused.set(row[1], row[3])
      }
    }
  }

  /**
   * Subtracts the market’s trades from the counts and removes them. Called when the market is unloaded from its thread.
   */
  drop(): void {
    for (const trade of this.#trades.values()) this.#counts.count(trade, -1)
    this.#trades.clear()
    this.#traders.clear()
  }

  #match({ taker, fills, seq }: OrdersMatched): void {
    const { trader, orderHash, outcome } = taker
    for (let index = 0; index < fills.length; index++) {
      const { maker, makerHash, size, price: makerPrice, kind } = fills[index]!
      const isBuy = isTakerBuyer(taker, fills[index]!)
      // Use the price of the buyer’s order: if the trade fails, its quantity returns to that order at that price.
      const price = isBuy ? taker.price : makerPrice
      const sides = isBuy
        ? { buyer: trader, seller: maker, buyHash: orderHash, sellHash: makerHash }
        : { buyer: maker, seller: trader, buyHash: makerHash, sellHash: orderHash }
      // The taker is charged for the settlement of the last fill. Every earlier fill used up its maker's order, and
      // that maker is charged.
      const takerPays = index === fills.length - 1
      const payer = isBuy === takerPays ? 'buyer' : 'seller'
      const trade: PendingTrade = { outcome, size, price, payer, ...sides }
      const sellPrice = isBuy ? makerPrice : taker.price
      this.#add(
        numberOf(seq, index),
        kind === undefined
          ? trade
          : {
              ...{ ...trade, outcome: makerOutcome(taker, { kind }), kind },
              ...(kind === 'mint' ? { sellPrice } : {}),
            },
      )
    }
  }

  #add(key: number, trade: PendingTrade): void {
    if (!this.#isSettled || this.#trades.has(key)) return
    const { buyer, seller, buyHash, sellHash, size } = trade
    this.#trades.set(key, trade)
    this.#counts.count(trade, 1)
    const buys = this.#open(buyer)
    buys.orders.set(buyHash, (buys.orders.get(buyHash) ?? 0) + size)
    const sells = this.#open(seller)
    sells.orders.set(sellHash, (sells.orders.get(sellHash) ?? 0) + size)
    // A trader owes nothing to themselves.
    if (buyer === seller) return
    if (trade.kind !== 'merge') buys.buys.add(key)
    if (trade.kind === 'mint') sells.buys.add(key)
  }

  #open(trader: Address): TraderPending {
    let known = this.#traders.get(trader)
    if (known === undefined) {
      known = { orders: new Map(), buys: new Set() }
      this.#traders.set(trader, known)
    }
    return known
  }

  #end(key: number): PendingTrade | undefined {
    const trade = this.#trades.get(key)
    if (trade === undefined) return undefined
    this.#trades.delete(key)
    this.#excused.delete(key)
    this.#counts.count(trade, -1)
    this.#take(trade.buyer, trade.buyHash, trade.size, key)
    this.#take(trade.seller, trade.sellHash, trade.size, key)
    return trade
  }

  #take(trader: Address, orderHash: OrderHash, size: number, key: number): void {
    const known = this.#traders.get(trader)
    if (known === undefined) return
    known.buys.delete(key)
    const left = (known.orders.get(orderHash) ?? 0) - size
    if (left > 0) known.orders.set(orderHash, left)
    else known.orders.delete(orderHash)
    if (known.orders.size === 0) this.#traders.delete(trader)
  }

  #fail({ tradeId, fault, excused, atMs }: TradeFailed): PendingTrade | undefined {
    const key = keyOf(tradeId)
    const left = this.#leftOf(key)
    const trade = this.#end(key)
    if (trade === undefined) return undefined
    if (excused === 'seller' || excused === 'both') {
      this.#excuse(trade, { seller: trade.seller, ...sellerLeg(trade) }, key, atMs)
    }
    if (excused === 'buyer' || excused === 'both') {
      this.#excuse(trade, { seller: trade.buyer, ...buyerLeg(trade) }, key, atMs)
    }
    if (trade.buyer === trade.seller || left === 0) return trade
    for (const [trader, leg, other] of [
      [trade.buyer, buyerLeg(trade), 'seller'],
      [trade.seller, sellerLeg(trade), 'buyer'],
    ] as const) {
      if (leg.side !== BUY || (fault !== other && fault !== 'none')) continue
      this.#lost = this.#lost.filter((lost) => atMs - lost.atMs < EXCUSED_FOR_MS)
      if (this.#lost.length >= LOST_BUYS_MAX) this.#lost.shift()
      this.#lost.push({ trader, outcome: leg.outcome, key, atMs, left })
    }
    return trade
  }

  /**
   * Records an excused sale: subtracts its size from the amounts that the seller's failed and pending purchases can
   * still excuse.
   */
  #excuse(
    { size }: PendingTrade,
    { seller, outcome }: { readonly seller: Address; readonly outcome: Outcome },
    before: number,
    nowMs: number,
  ): void {
    let rest: number = size
    for (const lost of this.#lostOf(seller, outcome, before, nowMs)) {
      const taken = Math.min(rest, lost.left)
      lost.left -= taken
      rest -= taken
    }
    for (const key of this.#buysOf(seller, outcome, before)) {
      const taken = Math.min(rest, this.#leftOf(key))
      if (taken > 0) this.#excused.set(key, (this.#excused.get(key) ?? 0) + taken)
      rest -= taken
    }
  }

  /** Returns the size of the buyer's failed sales that a pending purchase can still excuse. */
  #leftOf(key: number): number {
    return (this.#trades.get(key)?.size ?? 0) - (this.#excused.get(key) ?? 0)
  }

  *#lostOf(
    trader: Address,
    outcome: Outcome,
    before: number,
    nowMs: number,
  ): Generator<LostBuy, void> {
    for (const lost of this.#lost) {
      const fits = lost.trader === trader && lost.outcome === outcome && lost.key < before
      if (fits && nowMs - lost.atMs < EXCUSED_FOR_MS) yield lost
    }
  }

  *#buysOf(trader: Address, outcome: Outcome, before: number): Generator<number, void> {
    for (const key of this.#traders.get(trader)?.buys ?? []) {
      const trade = this.#trades.get(key)
      if (key >= before || trade === undefined) continue
      const leg = trade.buyer === trader ? buyerLeg(trade) : sellerLeg(trade)
      if (leg.outcome === outcome) yield key
    }
  }
}

/**
 * Encodes the id of a trade of this market as one number, from the sequence number of its event and its position in
 * that event.
 */
function keyOf(tradeId: string): number {
  const place = parseTradeId(tradeId)
  return place === undefined ? -1 : numberOf(place.sequence, place.fillIndex)
}

function numberOf(sequence: Sequence, fillIndex: number): number {
  return sequence * MAKERS_PER_EVENT_MAX + fillIndex
}
