/**
 * Places orders in three steps: checks the order without changing anything, cancels the replaced order, and places the
 * new order. A refused order changes nothing. Exception: a batch first cancels all replaced orders, and may then still
 * refuse a new order.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { GROUP_ORDERS_MAX, ORDERS_PER_TRADER_MAX } from '#domain/limits.ts'
import type { PlacementTerms } from '#domain/market-event.ts'
import type { Shares } from '#domain/money.ts'
import { notionalFlaw, OUTCOMES, orderFlaws, type VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { isImmediate } from '#domain/time-in-force.ts'
import type { OrderAccepted, PlacedOrder } from '#protocol/market.ts'
import { firstAnswer } from './first-answer.ts'
import { admit, closedBy, emitRest, type MarketContext, matched, secondsOf } from './orders.ts'
import { cancelByMarket, protect } from './protection.ts'
import { standingFlaw } from './standing.ts'
import type { MarketState } from './state.ts'
import { flawAgainstBook } from './time-in-force.ts'

export function place(
  state: MarketState,
  placed: PlacedOrder,
  context: MarketContext,
): OrderAccepted | Rejection {
  const { order, replaces } = placed
  const seen = seenBefore(state, placed, context)
  if (seen !== undefined) return seen
  const replaced = replaces === undefined ? undefined : new Set([replaces])
  const flaw = flawOf(state, placed, context, replaced) ?? replaceFlaw(state, placed, context)
  if (flaw !== undefined) return flaw
  if (replaces !== undefined && replaces !== order.orderHash) {
    cancelByMarket(state, replaces, 'replaced', context)
  }
  return enter(state, placed, context)
}

/**
 * Places several orders in one step. All replaced orders are cancelled first, so that a trader's new bid does not match
 * the trader's own old ask.
 */
export function placeAll(
  state: MarketState,
  orders: readonly PlacedOrder[],
  context: MarketContext,
): (OrderAccepted | Rejection)[] {
  const replaced = new Set(
    orders.flatMap(({ replaces }) => (replaces === undefined ? [] : [replaces])),
  )
  const leaving = new Set<OrderHash>()
  const first = orders.map((placed) => {
    const { replaces, replaceMode } = placed
    const refused =
      seenBefore(state, placed, context) ??
      flawOf(state, placed, context, replaced) ??
      replaceFlaw(state, placed, context)
    if (refused !== undefined || replaces === undefined) return refused
    // If two orders of a batch replace the same order, the second is refused, unless its mode is `always`.
    if (leaving.has(replaces) && replaceMode !== 'always') return reject('ORDER_CLOSED', 'replaces')
    leaving.add(replaces)
    return undefined
  })
  for (const orderHash of leaving) cancelByMarket(state, orderHash, 'replaced', context)
  return orders.map((placed, at) => {
    const known = first[at] ?? seenBefore(state, placed, context)
    // The order is checked again, because earlier orders of the batch may have changed the book.
    return known ?? flawOf(state, placed, context, undefined) ?? enter(state, placed, context)
  })
}

/** Returns the first answer to an order that the market already knows; undefined for a new order. */
function seenBefore(
  state: MarketState,
  { order, session }: PlacedOrder,
  context: MarketContext,
): OrderAccepted | Rejection | undefined {
  const crowded = session === undefined ? undefined : sessionFlaw(state, session, order)
  if (crowded !== undefined) return crowded
  const seen = firstAnswer(state, order, context)
  // If a session sends a known order again, the order is cancelled when that session ends.
  if (seen !== undefined && session !== undefined) mark(state, order.orderHash, session, context)
  return seen
}

/**
 * Checks a new order as if the replaced orders had already left the book. Returns the reason to refuse the
 * order; undefined if there is none.
 */
function flawOf(
  state: MarketState,
  { order, timeInForce, tags, bookByMs }: PlacedOrder,
  context: MarketContext,
  replaced: ReadonlySet<OrderHash> | undefined,
): Rejection | undefined {
  const nowSec = secondsOf(context.nowMs)
  if (closedBy(state, nowSec, context)) return reject('MARKET_CLOSED')
  const leaving = leavingOf(state, order.trader, replaced)
  if (bookByMs !== undefined && context.nowMs > bookByMs) {
    const detail = `the order reached its market ${context.nowMs - bookByMs} ms after bookByMs, so it was not placed`
    return reject('TOO_LATE', 'bookByMs', detail)
  }
  return (
    orderFlaws(order, nowSec)[0] ??
    notionalFlaw(order, state.rules.risk?.minNotional ?? 0) ??
    (state.rules.behind?.has(state.market.chainId) ? reject('SETTLEMENT_BEHIND') : undefined) ??
    standingFlaw(state, order.trader, context.nowMs) ??
    crowdedFor(state, order.trader, leaving.length) ??
    groupFlaw(state, order.trader, tags?.group, leaving) ??
    (timeInForce === undefined
      ? undefined
      : flawAgainstBook(state, order, timeInForce, { nowSec, replaced }))
  )
}

/**
 * Returns why the new order cannot replace the order `replaces`; undefined if it can. The replaced order must
 * belong to the same trader and be open. In the mode `always`, the replaced order may be closed or unknown.
 */
function replaceFlaw(
  state: MarketState,
  { order, replaces, replaceMode }: PlacedOrder,
  context: MarketContext,
): Rejection | undefined {
  if (replaces === undefined) return undefined
  const gone = replaceMode === 'always' ? undefined : reject('ORDER_CLOSED', 'replaces')
  for (const outcome of OUTCOMES) {
    const slot = state.books[outcome].locate(replaces)
    if (slot < 0) continue
    const resting = state.books[outcome].read(slot, replaces)
    if (resting.trader !== order.trader) return reject('NOT_ORDER_OWNER', 'replaces')
    return resting.expiresAtSec > secondsOf(context.nowMs) ? undefined : gone
  }
  const closed = state.recall.closed.get(replaces)
  if (closed !== undefined && closed.trader !== order.trader) {
    return reject('NOT_ORDER_OWNER', 'replaces')
  }
  return gone
}

/** Matches and rests an order that has no flaw. */
function enter(
  state: MarketState,
  placed: PlacedOrder,
  context: MarketContext,
): OrderAccepted | Rejection {
  const { order, timeInForce, session, tags } = placed
  const atOnce = isImmediate(timeInForce)
  const held = atOnce ? undefined : session
  const terms = termsOf(placed)
  const matches = admit(state, order, order.size, undefined, context, atOnce, held, tags, terms)
  if (matches === 0 && matched.limited) {
    // All makers up to the match's limit were removed without a trade. The order has no event yet: refuse it.
    return reject(
      'OVERLOADED',
      undefined,
      'the market is removing many expired orders: retry shortly',
    )
  }
  const filled = order.size - matched.left
  if (matches > 0) protect(state, context)
  const { orderHash } = order
  const timestamp = secondsOf(context.nowMs)
  if (!atOnce) return { orderHash, status: 'accepted', matches, timestamp }
  return { orderHash, status: 'accepted', matches, timestamp, filled }
}

/** Returns the conditions that the order’s first event contains; undefined if the order has no conditions. */
function termsOf({ timeInForce, bookByMs, replaces }: PlacedOrder): PlacementTerms | undefined {
  if (timeInForce === undefined && bookByMs === undefined && replaces === undefined)
    return undefined
  const terms: { -readonly [Term in keyof PlacementTerms]: PlacementTerms[Term] } = {}
  if (timeInForce !== undefined) terms.timeInForce = timeInForce
  if (bookByMs !== undefined) terms.bookByMs = bookByMs
  if (replaces !== undefined) terms.replaces = replaces
  return terms
}

const NONE: readonly OrderHash[] = []

/** Returns the orders to be replaced that belong to the trader and are still in a book. */
function leavingOf(
  { books }: MarketState,
  trader: Address,
  replaced: ReadonlySet<OrderHash> | undefined,
): readonly OrderHash[] {
  if (replaced === undefined) return NONE
  return [...replaced].filter((orderHash) =>
    books.some((book) => {
      const slot = book.locate(orderHash)
      return slot >= 0 && book.read(slot, orderHash).trader === trader
    }),
  )
}

/**
 * Returns a rejection if one more order would exceed the maximum number of orders of the market or of the trader;
 * otherwise undefined.
 */
function crowdedFor(
  { books, rules }: MarketState,
  trader: Address,
  leaving: number,
): Rejection | undefined {
  const [yes, no] = books
  const count = yes.count + no.count - leaving
  if (count >= rules.ordersMax) {
    return reject(
      'OVERLOADED',
      undefined,
      'the market has the maximum number of open orders: retry later',
    )
  }
  // If both books together have fewer orders than one trader may have, no trader can exceed the limit. This
  // check is cheaper than a look-up of the trader.
  if (count < ORDERS_PER_TRADER_MAX) return undefined
  if (yes.countOf(trader) + no.countOf(trader) - leaving < ORDERS_PER_TRADER_MAX) return undefined
  const detail =
    `the trader has ${ORDERS_PER_TRADER_MAX} open orders in this market, which is the maximum: cancel some of ` +
    'them'
  return reject('RATE_LIMITED', 'order.trader', detail)
}

function groupFlaw(
  { tagged }: MarketState,
  trader: Address,
  group: string | undefined,
  leaving: readonly OrderHash[],
): Rejection | undefined {
  if (group === undefined || tagged.countOf(trader, group) < GROUP_ORDERS_MAX) return undefined
  const left = leaving.filter((orderHash) => tagged.of(orderHash)?.group === group).length
  if (tagged.countOf(trader, group) - left < GROUP_ORDERS_MAX) return undefined
  const detail = `the group has ${GROUP_ORDERS_MAX} orders in this market, which is the maximum: cancel some of them`
  return reject('RATE_LIMITED', 'group', detail)
}

/** Rejects an order of a session that already has the maximum number of orders. */
function sessionFlaw(
  state: MarketState,
  session: string,
  { orderHash }: VerifiedOrder,
): Rejection | undefined {
  const max = state.rules.sessions?.ordersMax ?? Number.POSITIVE_INFINITY
  if (!state.held.isFull(session, orderHash, max)) return undefined
  const detail = `this connection has ${max} open or unsettled orders that are cancelled when it ends, which is the maximum`
  return reject('RATE_LIMITED', undefined, detail)
}

/**
 * Emits an event that assigns a resting order to this session: the order is cancelled when the session ends. If
 * `session` is undefined, the event states that the order outlives its session.
 */
export function mark(
  state: MarketState,
  orderHash: OrderHash,
  session: string | undefined,
  context: MarketContext,
): void {
  if (state.held.sessionOf(orderHash) === session) return
  for (const outcome of OUTCOMES) {
    const slot = state.books[outcome].locate(orderHash)
    if (slot < 0) continue
    const resting = state.books[outcome].read(slot, orderHash)
    const holder = session === undefined ? { kept: true } : { held: session }
    const more = { order: undefined, returned: false, ...holder }
    emitRest(state, resting, outcome, 0 as Shares, context, more)
  }
}
