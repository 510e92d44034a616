/**
 * Matches, rests and ends the orders of a market, with an event for each step. The handlers in `market.ts` and
 * `trades.ts` call these functions. Every order passes through them, so they take long parameter lists: an options object
 * would be one more allocation per order.
 */

import assert from 'node:assert/strict'
import { type BookPair, crossesEither, matchBoth } from '#book/complementary.ts'
import { MatchResult, match } from '#book/match.ts'
import type { OrderList } from '#book/order-list.ts'
import type { RestingOrder } from '#book/order-record.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { MAKERS_PER_EVENT_MAX, MAKERS_PER_ORDER_MAX } from '#domain/limits.ts'
import { type CloseReason, isComplementary } from '#domain/market.ts'
import type {
  ExcusedSide,
  Fill,
  MarketEvent,
  OrderClosed,
  OrderCloseReason,
  OrderRested,
  OrdersMatched,
  PendingTrade,
  PlacementTerms,
  TradeFailed,
} from '#domain/market-event.ts'
import type { Shares } from '#domain/money.ts'
import {
  BUY,
  expiresAtSec,
  type Outcome,
  otherOutcome,
  type Side,
  type VerifiedOrder,
} from '#domain/order.ts'
import { type CancelCause, echoOf, type OrderTags } from '#domain/order-tags.ts'
import type { ClosedOrder } from '#log/event-log.ts'
import type { PureContext } from '#runtime/actor.ts'
import type { MarketState } from './state.ts'

export type MarketContext = PureContext<MarketEvent>

/**
 * Result of the last match. Reused by every market of the thread: handlers run to completion, one after another.
 */
export const matched = new MatchResult()

export function secondsOf(ms: number): number {
  return Math.floor(ms / 1_000)
}

/** Emits an event. The caller changes the books. */
export function emit(state: MarketState, context: MarketContext, event: MarketEvent): void {
  note(state, event)
  context.emit(event)
}

/** Updates the state that new and replayed events change alike, such as pending trades, session orders and tags. */
export function note(state: MarketState, event: MarketEvent): void {
  if (event.seq !== state.seq + 1) {
    assert.fail(
      `market ${state.market.id}: the next event must have the number ${state.seq + 1}, not ` +
        `${event.seq}`,
    )
  }
  state.seq = event.seq
  state.updatedAtMs = event.atMs
  const ended = state.pending.follow(event)
  state.held.follow(event, ended, state)
  state.tagged.follow(event, ended, state)
  if (event.type === 'TradeFailed' && ended !== undefined) pauseAtFault(state, event, ended)
  switch (event.type) {
    case 'OrdersMatched':
      state.unsettled += event.fills.length
      break
    case 'TradeConfirmed':
    case 'TradeFailed':
      state.unsettled--
      break
    case 'TradeReverted':
      state.unsettled++
      break
    default:
      break
  }
}

/**
 * Returns the traders whom the chain blames for a failed trade. Leaves out an excused side, which lacks tokens only
 * because other traders have not delivered them.
 */
export function tradersAtFault(
  { fault, excused }: Pick<TradeFailed, 'fault' | 'excused'>,
  { buyer, seller }: { readonly buyer: Address; readonly seller: Address },
): Set<Address> {
  const atFault = new Set<Address>()
  const isAtFault = (side: 'buyer' | 'seller') =>
    (fault === side || fault === 'both') && !isExcused({ excused }, side)
  if (isAtFault('buyer')) atFault.add(buyer)
  if (isAtFault('seller')) atFault.add(seller)
  return atFault
}

export function isExcused(
  { excused }: { readonly excused?: ExcusedSide | undefined },
  side: 'buyer' | 'seller',
): boolean {
  return excused === side || excused === 'both'
}

function pauseAtFault(state: MarketState, event: TradeFailed, trade: PendingTrade): void {
  const pauses = state.rules.risk?.pauses
  if (pauses === undefined) return
  for (const trader of tradersAtFault(event, trade)) {
    pauses.fault(state.market.chainId, trader, event.atMs)
  }
}

/** Returns whether the market is closed to orders. If the market’s expiration has passed, closes the market first. */
export function closedBy(state: MarketState, nowSec: number, context: MarketContext): boolean {
  if (state.closed === undefined && nowSec >= state.market.expiration) {
    endMarket(state, 'expired', context)
  }
  return state.closed !== undefined
}

export function endMarket(state: MarketState, reason: CloseReason, context: MarketContext): void {
  state.closed = reason
  for (const book of state.books) book.clear()
  emit(state, context, {
    type: 'MarketClosed',
    marketId: state.market.id,
    seq: state.seq + 1,
    atMs: context.nowMs,
    reason,
  })
}

/**
 * Removes a resting order for the given reason, or as expired if its expiration has passed; returns the reason used.
 */
export function withdraw(
  state: MarketState,
  outcome: Outcome,
  slot: number,
  resting: RestingOrder,
  context: MarketContext,
  why: 'cancelled' | 'unfunded' = 'cancelled',
  cause?: CancelCause,
): OrderCloseReason {
  const past = resting.expiresAtSec <= secondsOf(context.nowMs)
  const reason = past ? 'expired' : why
  state.books[outcome].remove(slot)
  close(state, outcome, resting, resting.orderHash, reason, context, cause)
  return reason
}

/**
 * Matches `quantity`. Then rests the remainder, or cancels it if `atOnce` is true (IOC and FOK). Returns the number of
 * makers that were matched.
 *
 * Emits events in a fixed order: removed makers, fills, then the resting order. In this order, a replay never rests an
 * order that crosses the book.
 *
 * If a failed trade returns the order to the book, `first` is the record of the order's earlier end. The order keeps
 * the time of placing and the number of matches from this record. If `held` names a session, the order is cancelled
 * when that session ends. `tags` and `terms` are set only for a new order.
 */
export function admit(
  state: MarketState,
  order: VerifiedOrder,
  quantity: Shares,
  first: ClosedOrder | undefined,
  context: MarketContext,
  atOnce = false,
  held?: string,
  tags?: OrderTags,
  terms?: PlacementTerms,
): number {
  const { outcome } = order
  const taker = { trader: order.trader, side: order.side, price: order.price, size: quantity }
  const rules = {
    nowSec: secondsOf(context.nowMs),
    selfTrade: state.rules.selfTrade,
    makersMax: MAKERS_PER_ORDER_MAX,
  }
  const pair = isComplementary(state.market) ? pairOf(state, outcome) : undefined
  if (pair === undefined) match(state.books[outcome], taker, rules, matched)
  else matchBoth(pair, taker, rules, matched)
  const { fills, left, limited } = matched
  const met = pair === undefined ? undefined : order.side
  closeAll(state, outcome, matched.expired, 'expired', context, met)
  closeAll(state, outcome, matched.selfTraded, 'self-trade', context, met)
  const matches = fills.length
  if (matches > 0) {
    emitFills(state, order, quantity, first !== undefined, context, held, tags, terms)
  }
  if (limited && matches === 0 && first === undefined) return 0

  const life = {
    orderHash: order.orderHash,
    trader: order.trader,
    side: order.side,
    price: order.price,
    size: order.size,
    remaining: left as Shares,
    expiresAtSec: expiresAtSec(order.expiration),
    placedAtMs: first?.placedAtMs ?? context.nowMs,
    matches: first?.matches ?? matches,
  }
  if (left === 0) {
    close(state, outcome, life, order.orderHash, atOnce ? 'taken' : 'filled', context)
  } else if (limited || atOnce) {
    // The remainder must not rest. Either the order is IOC or FOK, or the match stopped at the maximum number of makers
    // and the remainder could still cross the book.
    close(state, outcome, { ...life, remaining: 0 }, order.orderHash, 'cancelled', context)
    if (first === undefined && matches > 0) rememberTaken(state, order.orderHash, quantity - left)
  } else {
    const rests = restIn(state, outcome, life, state.seq + 1)
    assert(rests, 'the book has no room for the order, although the room was checked before')
    emitRest(state, life, outcome, left as Shares, context, {
      order,
      isNew: matches === 0 && first === undefined,
      returned: first !== undefined,
      held: matches === 0 ? held : undefined,
      tags,
      terms,
    })
  }
  return matches
}

/** Returns the two books of a complementary market for an order of this outcome: first the book of its own outcome. */
export function pairOf({ books }: MarketState, outcome: Outcome): BookPair {
  return { same: books[outcome], other: books[otherOutcome(outcome)] }
}

/**
 * Rests an order. In a complementary market, the sequence number of the order’s event decides its place among orders at
 * the same price.
 */
export function restIn(
  state: MarketState,
  outcome: Outcome,
  order: RestingOrder,
  seq: number,
): boolean {
  const book = state.books[outcome]
  if (!isComplementary(state.market)) return book.rest(order, order.remaining, order.matches)
  if (crossesEither(pairOf(state, outcome), order.side, order.price)) {
    assert.fail('an order that could match in the YES book or the NO book must not rest')
  }
  return book.restAs(seq, order, order.remaining, order.matches)
}

/**
 * Records the order as `taken`, because the market cancelled its remainder. If the client sends it again, it gets the
 * first answer, not `ORDER_CLOSED`.
 */
function rememberTaken(state: MarketState, orderHash: OrderHash, filled: number): void {
  const closed = state.recall.closed.get(orderHash)
  assert(
    closed !== undefined,
    'the order was closed just now, but it is not among the closed orders',
  )
  state.recall.closed.set(orderHash, { ...closed, reason: 'taken', size: filled as Shares })
}

/** Emits the fills in `matched`, in several events if there are many, and the end of each maker that was filled. */
function emitFills(
  state: MarketState,
  taker: VerifiedOrder,
  quantity: Shares,
  known: boolean,
  context: MarketContext,
  held: string | undefined,
  tags: OrderTags | undefined,
  terms: PlacementTerms | undefined,
): void {
  const list = matched.fills
  const isPair = isComplementary(state.market)
  let left: number = quantity
  for (let from = 0; from < list.length; from += MAKERS_PER_EVENT_MAX) {
    const to = Math.min(list.length, from + MAKERS_PER_EVENT_MAX)
    const fills: Fill[] = new Array(to - from)
    for (let index = from; index < to; index++) {
      const size = list.taken(index)
      left -= size
      const makerHash = list.orderHash(index)
      const makerTags = state.tagged.of(makerHash)
      const fill = {
        makerHash,
        maker: list.trader(index),
        price: list.price(index),
        size,
        makerRemaining: list.remaining(index),
      }
      fills[index - from] =
        makerTags === undefined ? fill : { ...fill, makerTags: echoOf(makerTags) }
      // If maker and taker are on the same side, the maker rested in the book of the other outcome.
      if (isPair && list.side(index) === taker.side) {
        fills[index - from] = {
          ...fills[index - from]!,
          kind: taker.side === BUY ? 'mint' : 'merge',
        }
      }
    }
    const plain: OrdersMatched = {
      type: 'OrdersMatched',
      marketId: state.market.id,
      seq: state.seq + 1,
      atMs: context.nowMs,
      taker,
      takerRemaining: left,
      fills,
    }
    // Only the first event of an order contains the order's tags and terms.
    const tagged = tags === undefined || from > 0 ? plain : { ...plain, takerTags: tags }
    const event = terms === undefined || from > 0 ? tagged : { ...tagged, terms }
    if (known || from > 0) emit(state, context, { ...event, known: true })
    else emit(state, context, held === undefined ? event : { ...event, held })
    for (let index = from; index < to; index++) {
      const { makerHash, makerRemaining, kind } = fills[index - from]!
      const outcome = kind === undefined ? taker.outcome : otherOutcome(taker.outcome)
      if (makerRemaining === 0) closeOne(state, outcome, list, index, makerHash, context)
    }
  }
}

/** Emits that an order rests: in full, in part, or with a quantity that a failed trade returned. */
export function emitRest(
  state: MarketState,
  resting: RestingOrder,
  outcome: Outcome,
  added: Shares,
  context: MarketContext,
  more: {
    readonly order: VerifiedOrder | undefined
    readonly isNew?: boolean
    readonly returned: boolean
    readonly held?: string | undefined
    readonly kept?: boolean
    /** The tags of a new order; undefined for a known order, because the market already has its tags. */
    readonly tags?: OrderTags | undefined
    /** The terms of a new order. */
    readonly terms?: PlacementTerms | undefined
  },
): void {
  const event: { -readonly [Field in keyof OrderRested]: OrderRested[Field] } = {
    type: 'OrderRested',
    marketId: state.market.id,
    seq: state.seq + 1,
    atMs: context.nowMs,
    orderHash: resting.orderHash,
    trader: resting.trader,
    side: resting.side,
    outcome,
    price: resting.price,
    size: resting.size,
    added,
    remaining: resting.remaining,
    expiresAtSec: resting.expiresAtSec,
    placedAtMs: resting.placedAtMs,
    matches: resting.matches,
  }
  if (more.isNew && more.order !== undefined) {
    event.order = more.order
    if (more.terms !== undefined) event.terms = more.terms
  } else if (more.returned) {
    event.returned = true
    if (more.order?.permit !== undefined) event.permit = more.order.permit.nonce
  }
  if (more.held !== undefined) event.held = more.held
  else if (more.kept) event.kept = true
  const tags = more.tags ?? state.tagged.of(resting.orderHash)
  if (tags !== undefined) event.tags = tags
  emit(state, context, event)
}

/** Fields of an ending order that are emitted and remembered. */
type Ending = Omit<RestingOrder, 'orderHash' | 'remaining'> & { readonly remaining: number }

/** Emits the end of an order that has left the book, and remembers its first answer. */
export function close(
  state: MarketState,
  outcome: Outcome,
  order: Ending,
  orderHash: OrderHash,
  reason: OrderCloseReason,
  context: MarketContext,
  cause?: CancelCause,
): void {
  const marketId = state.market.id
  const { trader, side, price, size, remaining, expiresAtSec, placedAtMs, matches } = order
  const pending = reason === 'cancelled' ? state.pending.sizeOf(trader, orderHash) : 0
  const event: OrderClosed = {
    type: 'OrderClosed',
    marketId,
    seq: state.seq + 1,
    atMs: context.nowMs,
    orderHash,
    trader,
    side,
    outcome,
    price,
    size,
    reason,
    remaining,
    expiresAtSec,
    placedAtMs,
    matches,
  }
  const tags = state.tagged.of(orderHash)
  const isPlain = tags === undefined && cause === undefined
  emit(
    state,
    context,
    isPlain && pending === 0
      ? event
      : {
          ...event,
          ...(pending === 0 ? {} : { pending }),
          ...(tags === undefined ? {} : { tags: echoOf(tags) }),
          ...(cause === undefined || reason !== 'cancelled' ? {} : { cause }),
        },
  )
  state.recall.closed.set(orderHash, {
    orderHash,
    marketId,
    trader,
    side,
    outcome,
    price,
    size,
    reason,
    matches,
    placedAtMs,
    expiresAtSec,
    forgetAfterSec: Math.min(expiresAtSec, state.market.expiration),
  })
}

/** Closes a maker that a match has filled. */
function closeOne(
  state: MarketState,
  outcome: Outcome,
  list: OrderList,
  index: number,
  orderHash: OrderHash,
  context: MarketContext,
): void {
  const ending: Ending = {
    trader: list.trader(index),
    side: list.side(index),
    price: list.price(index),
    size: list.size(index),
    remaining: 0,
    expiresAtSec: list.expiresAtSec(index),
    placedAtMs: list.placedAtMs(index),
    matches: list.matches(index),
  }
  close(state, outcome, ending, orderHash, 'filled', context)
}

/**
 * Emits the end of each listed order. If `met` is undefined, all of them were in the book of `outcome`. If `met` is
 * set, the list comes from a match over both books, and `met` is the taker's side. Listed orders on the taker's side
 * were then in the book of the other outcome.
 */
export function closeAll(
  state: MarketState,
  outcome: Outcome,
  list: OrderList,
  reason: OrderCloseReason,
  context: MarketContext,
  met?: Side,
): void {
  for (let index = 0; index < list.length; index++) {
    const order = list.order(index)
    const its = order.side === met ? otherOutcome(outcome) : outcome
    close(state, its, order, order.orderHash, reason, context)
  }
}
