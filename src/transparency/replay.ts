/**
 * Repeats the matching from the events of a public log, and checks that every fill follows price-time priority. This
 * code shares nothing with the exchange's own books. It throws at the first event that contradicts the repeated
 * matching. The error contains the event's offset.
 */

import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import { MAKERS_PER_ORDER_MAX } from '#domain/limits.ts'
import type { Market } from '#domain/market.ts'
import { ONE } from '#domain/money.ts'
import { BUY, expiresAtSec, NO, type Outcome, SELL, YES } from '#domain/order.ts'
import { isImmediate, type TimeInForce } from '#domain/time-in-force.ts'
import type {
  OrderTerms,
  PublicClosed,
  PublicEvent,
  PublicMatched,
  PublicOrder,
  PublicRested,
} from './public-event-shapes.ts'
import { ReplayBook, type ReplayOrder } from './replay-book.ts'

type Known = ReplayOrder & {
  readonly outcome: Outcome
  readonly timeInForce: TimeInForce | undefined
  closed: string
}

type FilledTrade = {
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
  readonly size: number
}

/**
 * The taker of the last match. The market's next events must first close the makers that the match filled. The event
 * after them must match, rest or close the taker.
 */
type Taking = {
  readonly orderHash: OrderHash
  remaining: number
  makers: number
  returned: boolean
}

type ReplayMarket = {
  readonly market: Market
  readonly books: readonly [ReplayBook, ReplayBook]
  readonly orders: Map<OrderHash, Known>
  readonly trades: Map<TradeId, FilledTrade>
  /**
   * Quantity that failed trades have returned to each order. When a later event matches or rests a part of it, that
   * part is subtracted.
   */
  readonly returnable: Map<OrderHash, number>
  /** Makers that the last match filled completely. The next events must close their orders. */
  readonly filled: Set<OrderHash>
  seq: number
  atMs: number
  /**
   * Traders whose orders were filled at `atMs`, the time of the last event. After a fill, protection may cancel the
   * remaining orders of an order group. So only an order of these traders may be cancelled with the cause `protection`.
   */
  readonly filledTraders: Set<Address>
  /**
   * Number of makers that the latest consecutive events removed without a trade: expired makers, and makers removed to
   * prevent a self-trade. If a match follows, these makers count towards its limit `MAKERS_PER_ORDER_MAX`. Any event
   * that removes no such maker resets the number to 0.
   */
  removed: number
  taking: Taking | undefined
  closed: boolean
}

export type Replay = {
  /** Applies the next event. Throws if the event contradicts the replay. */
  apply(event: PublicEvent): void
  /** Returns the book of an outcome as of the last event; undefined if the market was not opened. */
  bookOf(marketId: MarketId, outcome: Outcome): ReplayBook | undefined
  /** Returns whether an order has ended and was not returned to the book afterwards. */
  hasEnded(marketId: MarketId, orderHash: OrderHash): boolean
  readonly counts: { events: number; markets: number; orders: number; fills: number }
}

/** Makes a replay. `seen` is called once for each order, with the order's market. */
export function makeReplay(seen: (order: PublicOrder, market: Market) => void): Replay {
  const markets = new Map<MarketId, ReplayMarket>()
  const counts = { events: 0, markets: 0, orders: 0, fills: 0 }
  return {
    counts,
    hasEnded: (marketId, orderHash) =>
      (markets.get(marketId)?.orders.get(orderHash)?.closed ?? '') !== '',
    bookOf(marketId, outcome) {
      const market = markets.get(marketId)
      return market?.closed ? new ReplayBook() : market?.books[outcome]
    },
    apply(event) {
      const check = makeCheck(event)
      counts.events++
      if (event.type === 'MarketOpened') {
        check(
          !markets.has(event.marketId) && event.seq === 1,
          'a market must be opened only once, by its event 1',
        )
        counts.markets++
        markets.set(event.marketId, newMarket(event.market, event.atMs))
        return
      }
      const market = markets.get(event.marketId)
      check(market !== undefined, 'the market was never opened')
      check(
        event.seq === market!.seq + 1,
        `the event number must be one more than the previous number, ${market!.seq}`,
      )
      check(
        event.atMs >= market!.atMs,
        'the time of the event is before that of the previous event',
      )
      if (event.atMs > market!.atMs) market!.filledTraders.clear()
      market!.seq = event.seq
      market!.atMs = event.atMs
      applyTo(market!, event, check, {
        order(order) {
          counts.orders++
          seen(order, market!.market)
        },
        fills: (count) => {
          counts.fills += count
        },
      })
    },
  }
}

function newMarket(market: Market, atMs: number): ReplayMarket {
  return {
    ...{ market, books: [new ReplayBook(), new ReplayBook()], orders: new Map() },
    ...{ trades: new Map(), returnable: new Map(), filled: new Set(), filledTraders: new Set() },
    ...{ seq: 1, atMs, removed: 0, taking: undefined, closed: false },
  }
}

type Check = (holds: boolean, otherwise: string) => void

function makeCheck({ type, marketId, seq, offset }: PublicEvent): Check {
  return (holds, otherwise) => {
    if (holds) return
    throw new Error(
      `event ${seq} (${type}) of market ${marketId}, at offset ${offset}: ${otherwise}`,
    )
  }
}

type Noted = { order(order: PublicOrder): void; fills(count: number): void }

function applyTo(
  market: ReplayMarket,
  event: Exclude<PublicEvent, { type: 'MarketOpened' }>,
  check: Check,
  noted: Noted,
): void {
  const isEnd = event.type === 'OrderClosed' && market.filled.has(event.orderHash)
  check(isEnd || market.filled.size === 0, 'the OrderClosed event of a filled order is missing')
  const { taking } = market
  const isOfTaking =
    taking === undefined ||
    isEnd ||
    (event.type === 'OrdersMatched' && event.taker.orderHash === taking.orderHash) ||
    (event.type === 'OrderRested' && event.orderHash === taking.orderHash) ||
    (event.type === 'OrderClosed' && event.orderHash === taking.orderHash)
  check(isOfTaking, `the event about the unfilled rest of order ${taking?.orderHash} is missing`)
  const isRemoval =
    event.type === 'OrderClosed' && (event.reason === 'expired' || event.reason === 'self-trade')
  switch (event.type) {
    case 'OrderRested':
      applyRested(market, event, check, noted)
      break
    case 'OrdersMatched':
      applyMatched(market, event, check, noted)
      break
    case 'OrderClosed':
      applyClosed(market, event, check)
      break
    case 'MarketClosed':
      market.closed = true
      break
    case 'TradeFailed':
      applyFailed(market, event, check)
      break
    default:
      check(market.trades.has(event.tradeId), `there is no trade ${event.tradeId}`)
  }
  market.removed = isRemoval ? market.removed + 1 : 0
}

/** Adds an order that the log contains for the first time. */
function introduce(market: ReplayMarket, order: PublicOrder, check: Check, noted: Noted): Known {
  check(!market.orders.has(order.orderHash), `order ${order.orderHash} was placed before`)
  check(!market.closed, 'the market is closed')
  const { orderHash, trader, side, outcome, price, size } = order
  const { timeInForce, bookByMs, replaces } = order
  const expires = expiresAtSec(order.expiration)
  check(
    bookByMs === undefined || market.atMs <= bookByMs,
    `the order must be placed at ${bookByMs} (Unix milliseconds) or earlier, not at ${market.atMs}`,
  )
  const replaced = replaces === undefined ? undefined : market.orders.get(replaces)
  if (replaced !== undefined) {
    check(replaced.trader === trader, `the order replaces order ${replaces} of another trader`)
    check(
      !market.books[replaced.outcome].has(replaced),
      `the replaced order ${replaces} is still in the book`,
    )
  }
  const known: Known = {
    ...{ orderHash, trader, side, outcome, price, size, expiresAtSec: expires, timeInForce },
    ...{ remaining: size, closed: '', arrival: 0 },
  }
  market.orders.set(orderHash, known)
  noted.order(order)
  return known
}

function applyMatched(
  market: ReplayMarket,
  event: PublicMatched,
  check: Check,
  noted: Noted,
): void {
  const { taker, fills } = event
  const { taking } = market
  const order = event.known
    ? knownOrder(market, taker, check)
    : introduce(market, taker, check, noted)
  check(
    event.known || taker.timeInForce !== 'POST_ONLY',
    'a post-only order must not match on arrival',
  )
  const matched = fills.reduce((sum, { size }) => sum + size, 0)
  let left = taking?.remaining ?? order.size
  let makers = taking?.makers ?? market.removed
  const returned = taking?.returned ?? event.known === true
  if (taking === undefined && event.known) {
    left = matched + event.takerRemaining
    useReturned(market, order, left, check)
  }
  for (const [at, fill] of fills.entries()) {
    const maker = crossing(market, order)
    check(maker !== undefined, `fill ${at}: no order rests at a price that the taker accepts`)
    const best = maker!
    const kind = kindOf(order, best)
    check(fill.kind === kind, `fill ${at}: the kind must be ${kind ?? 'an ordinary fill'}`)
    check(
      fill.makerHash === best.orderHash,
      `fill ${at}: order ${best.orderHash} at ${best.price} must be filled before ${fill.makerHash}`,
    )
    check(
      best.expiresAtSec > Math.floor(event.atMs / 1_000),
      `fill ${at}: the maker’s order has expired`,
    )
    check(
      fill.price === best.price,
      `fill ${at}: the price must be ${best.price}, the maker's price`,
    )
    check(fill.maker === best.trader, `fill ${at}: the maker's trader must be ${best.trader}`)
    const size = Math.min(best.remaining, left)
    check(fill.size === size, `fill ${at}: its size must be ${size}, not ${fill.size}`)
    best.remaining -= size
    market.filledTraders.add(best.trader).add(order.trader)
    left -= size
    makers++
    check(
      fill.makerRemaining === best.remaining,
      `fill ${at}: the remaining size of the maker’s order must be ${best.remaining}`,
    )
    market.trades.set(tradeId(event.marketId, event.seq, at), tradeOf(order, best, size))
    if (best.remaining > 0) continue
    market.books[best.outcome].remove(best)
    market.filled.add(best.orderHash)
  }
  check(
    event.takerRemaining === left,
    `the remaining size of the taker must be ${left}, not ${event.takerRemaining}`,
  )
  order.remaining = left
  market.taking = { orderHash: order.orderHash, remaining: left, makers, returned }
  noted.fills(fills.length)
}

/** Returns the kind of a fill between orders of the same side: two buys are a mint, two sells a merge. */
function kindOf(taker: Known, maker: Known): 'mint' | 'merge' | undefined {
  if (taker.side !== maker.side) return undefined
  return taker.side === BUY ? 'mint' : 'merge'
}

/** Returns the trade of a fill. In a mint the maker is recorded as the buyer, in a merge as the seller. */
function tradeOf(taker: Known, maker: Known, size: number): FilledTrade {
  const isBuyer = taker.side === maker.side ? maker.side === SELL : taker.side === BUY
  const [buy, sell] = isBuyer ? [taker, maker] : [maker, taker]
  return { buyHash: buy.orderHash, sellHash: sell.orderHash, size }
}

/**
 * Returns the resting order that `order` would match first. In a complementary market, this may be an order of the
 * other outcome with the same side. For example, a buy of NO at q counts as a sell of YES at 1 − q, so a buy of YES can
 * match it. At equal prices the older order comes first.
 */
function crossing({ market, books, orders }: ReplayMarket, order: Known): Known | undefined {
  const { side, outcome, price } = order
  const known = (maker: ReplayOrder | undefined) => maker && orders.get(maker.orderHash)
  const same = known(books[outcome].crossing(side, price))
  if (market.matching !== 'complementary') return same
  const opposite = side === BUY ? SELL : BUY
  const other = known(books[outcome === YES ? NO : YES].crossing(opposite, ONE - price))
  if (same === undefined || other === undefined) return same ?? other
  const gap = same.price - (ONE - other.price)
  if (gap === 0) return same.arrival < other.arrival ? same : other
  return gap < 0 === (side === BUY) ? same : other
}

function applyRested(market: ReplayMarket, event: PublicRested, check: Check, noted: Noted): void {
  const { taking } = market
  const { added, remaining } = event
  if (event.order !== undefined) introduce(market, event.order, check, noted)
  const order = knownOrder(market, event, check)
  const book = market.books[order.outcome]
  check(!market.closed, 'the market is closed')
  check(
    !isImmediate(order.timeInForce),
    `an order with the time in force ${order.timeInForce} must not rest in the book`,
  )
  if (event.order !== undefined) {
    check(
      remaining === order.size && added === remaining,
      'a new order must rest with its whole size',
    )
  } else if (taking !== undefined) {
    check(
      remaining === taking.remaining && added === remaining,
      `the unfilled size ${taking.remaining} must rest`,
    )
    market.taking = undefined
  } else if (added === 0) {
    check(
      book.has(order) && remaining === order.remaining,
      'the order must stay in the book with its size unchanged',
    )
    return
  } else {
    useReturned(market, order, added, check)
    order.remaining = book.has(order) ? order.remaining + added : added
    check(remaining === order.remaining, `a size of ${order.remaining} must rest, not ${remaining}`)
    order.closed = ''
    if (book.has(order)) return
  }
  const maker = crossing(market, order)
  check(maker === undefined, `the order rests, although it would match order ${maker?.orderHash}`)
  order.remaining = remaining
  order.closed = ''
  order.arrival = event.seq
  book.rest(order)
}

function applyClosed(market: ReplayMarket, event: PublicClosed, check: Check): void {
  const order = knownOrder(market, event, check)
  const { reason, remaining, orderHash, cause } = event
  check(
    cause === undefined || reason === 'cancelled',
    `only a cancelled order may have a cause, but the reason of this event is ${reason}`,
  )
  check(
    cause !== 'protection' || market.filledTraders.has(event.trader),
    'the order was cancelled by the protection of its trader, but no fill of this trader can have triggered it',
  )
  const book = market.books[order.outcome]
  const rests = book.has(order)
  check(
    remaining === (rests ? order.remaining : 0),
    `remaining must be ${rests ? order.remaining : 0}, not ${remaining}`,
  )
  if (reason === 'expired') {
    const nowSec = Math.floor(event.atMs / 1_000)
    check(
      order.expiresAtSec <= nowSec,
      `the order has not expired yet: it expires at ${order.expiresAtSec} (Unix seconds)`,
    )
  }
  const { taking } = market
  if (taking?.orderHash === orderHash) {
    const isFilled = reason === 'filled' || reason === 'taken'
    check(
      isFilled === (taking.remaining === 0),
      `the order cannot end with the reason ${reason}: the unfilled part of its size is ${taking.remaining}`,
    )
    check(isFilled || order.timeInForce !== 'FOK', 'a FOK order ended without a complete fill')
    const maker = crossing(market, order)
    check(
      isFilled || maker === undefined || taking.makers >= MAKERS_PER_ORDER_MAX,
      `the unfilled part of the order must not end, because it can match order ${maker?.orderHash}`,
    )
    market.taking = undefined
  } else if (reason === 'filled' || reason === 'taken') {
    check(market.filled.has(orderHash), 'the order is not filled')
  }
  market.filled.delete(orderHash)
  if (rests) book.remove(order)
  order.remaining = 0
  order.closed = reason
}

function applyFailed(
  market: ReplayMarket,
  event: Extract<PublicEvent, { type: 'TradeFailed' }>,
  check: Check,
): void {
  const trade = market.trades.get(event.tradeId)
  check(trade !== undefined, `there is no trade ${event.tradeId}`)
  const { buyHash, sellHash, size } = trade!
  const { fault, excused } = event
  const isBuyerAtFault = fault === 'buyer' || fault === 'both'
  const isSellerAtFault = fault === 'seller' || fault === 'both'
  const give = (orderHash: OrderHash): void => {
    market.returnable.set(orderHash, (market.returnable.get(orderHash) ?? 0) + size)
  }
  const isExcused = (side: 'buyer' | 'seller') => excused === side || excused === 'both'
  if (!isBuyerAtFault && !isExcused('buyer')) give(buyHash)
  if (!isSellerAtFault && !isExcused('seller')) give(sellHash)
}

/**
 * Subtracts `size` from the quantity that failed trades have returned to an order. Throws if that quantity is less than
 * `size`.
 */
function useReturned(market: ReplayMarket, order: Known, size: number, check: Check): void {
  const returnable = market.returnable.get(order.orderHash) ?? 0
  check(
    size <= returnable,
    `failed trades returned only ${returnable} to the order, but the event uses ${size}`,
  )
  market.returnable.set(order.orderHash, returnable - size)
}

/** Returns the log's order with the hash in `terms`. Throws if there is no such order, or if its terms differ. */
function knownOrder(market: ReplayMarket, terms: OrderTerms, check: Check): Known {
  const order = market.orders.get(terms.orderHash)
  check(order !== undefined, `the log has no order ${terms.orderHash}`)
  const { trader, side, outcome, price, size } = order!
  check(
    terms.trader === trader &&
      terms.side === side &&
      terms.outcome === outcome &&
      terms.price === price &&
      terms.size === size,
    `the terms of order ${terms.orderHash} have changed`,
  )
  return order!
}
