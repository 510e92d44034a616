/**
 * Sends requests to market threads: finds the thread of a market, sends the request, and turns a missing answer into a
 * rejection that shows the client what to do.
 */

import type { Address, MarketId, OrderHash, Sequence } from '#domain/ids.ts'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { byAge, type Side, type VerifiedOrder } from '#domain/order.ts'
import type { CancelCause } from '#domain/order-tags.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { Asker } from '#http/limits.ts'
import type { RequestContext } from '#http/request-context.ts'
import type {
  OpenOrder,
  OrderAccepted,
  OrderCancelled,
  PendingOfOrder,
  PlacedOrder,
  RecalledOrder,
} from '#protocol/market.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered, type Unanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { Ref } from '#runtime/ref.ts'

export type MarketRef = Ref<MarketThreadProtocol>

/**
 * State of the markets in this front's memory. The answer to a write is delayed until the events of the write have
 * arrived.
 */
type BoardState = {
  /** Returns the sequence number of the last change of the market that this front has received. */
  readonly seqOf?: (marketId: MarketId) => Sequence | undefined
  /**
   * Returns undefined if this front follows the market and has lost no event of it. Otherwise returns a promise that
   * resolves when the market is loaded again. If the front does not follow the market yet, this call makes the front
   * follow it.
   */
  readonly caughtUp?: (marketId: MarketId) => Promise<void> | undefined
}

/** Context that is sent with an order to its market. */
export type OrderContext = RequestContext &
  Asker & {
    /** Session whose end cancels the order. The market's thread registers the session before the order rests. */
    readonly session?: string
    /** True if the funds of the order are reserved; the market then must not place the order after the deadline. */
    readonly isReserved?: boolean
  } & OrderOptions

/** Unsigned options that a client attached to an order. */
export type OrderOptions = Readonly<
  Pick<PlacedOrder, 'tags' | 'bookByMs' | 'replaces' | 'replaceMode'>
> & { readonly timeInForce?: TimeInForce | undefined }

/** Each method takes a context: the deadline and the id of its request. */
export type MarketGateway = {
  place(order: VerifiedOrder, context: OrderContext): Promise<OrderAccepted | Rejection>
  /**
   * Places several orders of one market in one step. Returns one answer per order, in the same sequence as the orders.
   */
  placeAll(
    marketId: MarketId,
    orders: readonly { readonly order: VerifiedOrder; readonly context: OrderContext }[],
    context: RequestContext,
  ): Promise<readonly (OrderAccepted | Rejection)[] | Rejection>
  /** Returns the answer that an order got when it was placed; undefined if the market does not know the order. */
  recall(
    order: Pick<VerifiedOrder, 'marketId' | 'orderHash' | 'outcome'>,
    context: RequestContext,
  ): Promise<RecalledOrder | Rejection | undefined>
  cancel(
    order: {
      readonly marketId: MarketId
      readonly orderHash: OrderHash
      readonly side: Side
      readonly trader?: Address
    },
    context: RequestContext,
  ): Promise<OrderCancelled | Rejection>
  /** Returns a rejection if the trader may not place orders in the market at present, otherwise undefined. */
  standing(
    marketId: MarketId,
    trader: Address,
    context: RequestContext,
  ): Promise<Rejection | undefined>
  /**
   * Cancels a trader's orders in one market or in all. Cancels open orders, and orders whose quantity may return to the
   * book if a trade fails. Returns the number of cancelled orders, and at most `CANCELLED_LISTED_MAX` of their hashes.
   */
  cancelAll(
    trader: Address,
    which: CancelledWhich,
    context: RequestContext,
  ): Promise<CancelledOrders | Rejection>
  /**
   * Returns a page of a trader's open orders, in one market or in all, and their total count. The page contains the
   * oldest orders after a cursor, up to a limit.
   */
  openOrdersPage(
    asked: MarketThreadProtocol['OpenOrdersPage']['takes'],
    context: RequestContext,
  ): Promise<{ orders: OpenOrder[]; count: number } | Rejection>
  /** Returns the number of resting orders by chain. */
  countOrders(context: RequestContext): Promise<Map<number, number> | Rejection>
}

/**
 * Selects the orders of a trader that are to be cancelled: by market, chains or group. `cause` is set if the cancel was
 * not requested by a client.
 */
type CancelledWhich = {
  readonly marketId?: MarketId | undefined
  readonly chainIds?: readonly number[] | undefined
  readonly group?: string | undefined
  readonly cause?: CancelCause
}

type CancelledOrders = {
  readonly orderHashes: OrderHash[]
  /** Cancelled orders that still have unsettled trades. */
  readonly pending: PendingOfOrder[]
  count: number
}

/** Maximum number of markets in which one trader's orders are cancelled at the same time. */
const CANCELLED_MARKETS_MAX = 64

/** Parts of a gateway that `cancelAll` uses. */
type CancelPorts = {
  readonly threads: readonly MarketRef[]
  readonly refOf: (marketId: MarketId) => MarketRef
  readonly leftMs: (context: RequestContext) => number
  readonly caughtUp: BoardState['caughtUp']
  readonly untilCaughtUp: (marketId: MarketId, context: RequestContext) => Promise<void>
}

function makeCancelAll(ports: CancelPorts): MarketGateway['cancelAll'] {
  const { threads, refOf, leftMs, caughtUp, untilCaughtUp } = ports

  /**
   * Cancels the trader's orders in one market, in as many requests as necessary. Returns a rejection if a request
   * fails.
   */
  async function cancelInMarket(
    marketId: MarketId,
    orders: Cancelling,
    context: RequestContext,
    cancelled: CancelledOrders,
  ): Promise<Rejection | undefined> {
    caughtUp?.(marketId)
    for (let more = true; more; ) {
      const answer = await refOf(marketId).ask(
        'CancelOrders',
        { marketId, ...orders },
        leftMs(context),
      )
      if (isUnanswered(answer)) return writeFailure(answer)
      await untilCaughtUp(marketId, context)
      if (isRejection(answer)) {
        // An ended market that was unloaded has no orders left to cancel.
        return answer.rejected === 'MARKET_NOT_FOUND' ? undefined : answer
      }
      cancelled.count += answer.orderHashes.length
      const room = CANCELLED_LISTED_MAX - cancelled.orderHashes.length
      cancelled.orderHashes.push(...answer.orderHashes.slice(0, room))
      cancelled.pending.push(
        ...answer.pending.slice(0, CANCELLED_LISTED_MAX - cancelled.pending.length),
      )
      more = answer.more === true
    }
    return undefined
  }

  /**
   * Cancels the trader's orders in all markets of a thread, or only in those of its markets that are on one chain.
   * Processes a limited number of markets at a time.
   */
  async function cancelInThread(
    { thread, chainId }: { readonly thread: MarketRef; readonly chainId: number | undefined },
    orders: Cancelling,
    context: RequestContext,
    cancelled: CancelledOrders,
  ): Promise<Rejection | undefined> {
    const { trader, group } = orders
    const where = chainId === undefined ? { trader } : { trader, chainId }
    // An order with pending trades may have left the book, and the thread's index of open orders then omits it. This
    // request finds the markets of such orders.
    const trading = await thread.ask('PendingMarkets', where, leftMs(context))
    if (isUnanswered(trading) || isRejection(trading)) return reject('OVERLOADED')
    for (const marketId of trading.marketIds) {
      const failure = await cancelInMarket(marketId, orders, context, cancelled)
      if (failure !== undefined) return failure
    }
    for (;;) {
      const asked = {
        ...{ ...where, limit: CANCELLED_MARKETS_MAX },
        ...(group === undefined ? {} : { group }),
      }
      const found = await thread.ask('MarketsOf', asked, leftMs(context))
      if (isUnanswered(found) || isRejection(found)) return reject('OVERLOADED')
      if (found.marketIds.length === 0) return undefined
      const ended = await Promise.all(
        found.marketIds.map((marketId) => cancelInMarket(marketId, orders, context, cancelled)),
      )
      const failure = ended.find((each) => each !== undefined)
      if (failure !== undefined) return failure
    }
  }

  return async (trader, { marketId, chainIds, group, cause }, context) => {
    const orders = {
      trader,
      ...(group === undefined ? {} : { group }),
      ...(cause === undefined ? {} : { cause }),
    }
    const cancelled: CancelledOrders = { orderHashes: [], pending: [], count: 0 }
    const places = threads.flatMap((thread) =>
      (chainIds ?? [undefined]).map((chainId) => ({ thread, chainId })),
    )
    const ended =
      marketId === undefined
        ? await Promise.all(
            places.map((place) => cancelInThread(place, orders, context, cancelled)),
          )
        : [await cancelInMarket(marketId, orders, context, cancelled)]
    return ended.find((failure) => failure !== undefined) ?? cancelled
  }
}

export function makeGateway(
  threads: readonly MarketRef[],
  threadOf: (marketId: MarketId) => number,
  clock: Pick<Clock, 'nowMs'>,
  boardState: BoardState = {},
): MarketGateway {
  const refOf = (marketId: MarketId): MarketRef => {
    const ref = threads[threadOf(marketId)]
    if (ref === undefined) throw new Error(`no market thread serves ${marketId}`)
    return ref
  }
  const { seqOf, caughtUp } = boardState

  /** If events of a market were lost, waits until the market is loaded again, but not longer than the deadline. */
  async function untilCaughtUp(marketId: MarketId, context: RequestContext): Promise<void> {
    const loaded = caughtUp?.(marketId)
    if (loaded !== undefined) await inTime(loaded, leftMs(context))
  }

  const leftMs = ({ deadlineAtMs }: RequestContext): number =>
    Math.max(1, deadlineAtMs - clock.nowMs())

  /**
   * Sends a write, waits until its events have arrived at this front, and records the stages that the answer reports.
   */
  async function write<K extends 'PlaceOrder' | 'PlaceOrders' | 'CancelOrder'>(
    marketId: MarketId,
    type: K,
    message: MarketThreadProtocol[K]['takes'],
    context: RequestContext,
  ): Promise<MarketThreadProtocol[K]['answers']> {
    const { stages } = context
    const ref = refOf(marketId)
    // Make an idle market active before sending the write. Otherwise the thread would not send the write's events to
    // this front.
    caughtUp?.(marketId)
    const answer = await (stages !== undefined && (stages.asked || stages.span !== undefined)
      ? ref.ask(type, message, leftMs(context), (times) => {
          stages.market = times
        })
      : ref.ask(type, message, leftMs(context)))
    if (isUnanswered(answer)) return writeFailure(answer)
    if (stages !== undefined) stages.answerSentAtMs = ref.peerSentAtMs
    if (isRejection(answer)) return answer
    for (let loaded = caughtUp?.(marketId); loaded !== undefined; loaded = caughtUp?.(marketId)) {
      // At the deadline, return the answer without a sequence number, because this front has not received the events of
      // the write yet.
      if (clock.nowMs() >= context.deadlineAtMs) return answer
      await inTime(loaded, leftMs(context))
    }
    const seq = seqOf?.(marketId)
    // A read at this `seq` or later includes the effect of the write.
    return seq === undefined ? answer : Object.assign(answer, { marketId, seq })
  }

  return {
    place(order, context) {
      return write(order.marketId, 'PlaceOrder', placedOrder(order, context, leftMs), context)
    },
    async placeAll(marketId, items, context) {
      const orders = items.map(({ order, context: own }) => placedOrder(order, own, leftMs))
      return eachAnswer(await write(marketId, 'PlaceOrders', { marketId, orders }, context))
    },
    async recall({ marketId, orderHash, outcome }, context) {
      const asked = { marketId, orderHash, outcome }
      const answer = await refOf(marketId).ask('RecallOrder', asked, leftMs(context))
      if (isUnanswered(answer) || isUnconfirmed(answer)) return reject('OVERLOADED')
      return 'unknown' in answer ? undefined : answer
    },
    cancel(order, context) {
      const { requestId } = context
      const message = requestId === undefined ? order : { ...order, requestId }
      return write(order.marketId, 'CancelOrder', message, context)
    },
    cancelAll: makeCancelAll({ threads, refOf, leftMs, caughtUp, untilCaughtUp }),
    async standing(marketId, trader, context) {
      const answer = await refOf(marketId).ask('Standing', { marketId, trader }, leftMs(context))
      if (isUnanswered(answer) || isUnconfirmed(answer)) return reject('OVERLOADED')
      return isRejection(answer) ? answer : answer.refused
    },
    async openOrdersPage(asked, context) {
      const from = asked.marketId === undefined ? threads : [refOf(asked.marketId)]
      const answers = await Promise.all(
        from.map((thread) => thread.ask('OpenOrdersPage', asked, leftMs(context))),
      )
      const orders: OpenOrder[] = []
      let count = 0
      for (const answer of answers) {
        // The protocol declares no rejection for this request, but a thread rejects it if the thread is full or its log
        // is unavailable.
        if (isUnanswered(answer) || isRejection(answer)) return reject('OVERLOADED')
        orders.push(...answer.orders)
        count += answer.count
      }
      return { orders: orders.sort(byAge).slice(0, asked.limit), count }
    },
    async countOrders(context) {
      const answers = await Promise.all(
        threads.map((thread) => thread.ask('CountOrders', {}, leftMs(context))),
      )
      return sumOf(answers)
    },
  }
}

/** Adds up the counts of all threads, by chain. */
function sumOf(
  answers: readonly (MarketThreadProtocol['CountOrders']['answers'] | Unanswered)[],
): Map<number, number> | Rejection {
  const counts = new Map<number, number>()
  for (const answer of answers) {
    if (isUnanswered(answer) || isRejection(answer)) return reject('OVERLOADED')
    for (const [chainId, orders] of answer.chains) {
      counts.set(chainId, (counts.get(chainId) ?? 0) + orders)
    }
  }
  return counts
}

type Cancelling = Pick<MarketThreadProtocol['CancelOrders']['takes'], 'trader' | 'group' | 'cause'>

/**
 * Returns one answer per order of a `PlaceOrders` request. `write` adds the market and its `seq` to the answer of the
 * whole request. This function copies both to the answer of each accepted order.
 */
function eachAnswer(
  done: MarketThreadProtocol['PlaceOrders']['answers'],
): readonly (OrderAccepted | Rejection)[] | Rejection {
  if (isRejection(done)) return done
  const { answers, ...seen } = done
  return answers.map((answer) => (isRejection(answer) ? answer : { ...answer, ...seen }))
}

function placedOrder(
  order: VerifiedOrder,
  context: OrderContext,
  leftMs: (context: RequestContext) => number,
): PlacedOrder {
  const { requestId, session, timeInForce, tags, bookByMs, replaces, replaceMode } = context
  const placed: PlacedOrder = { order }
  if (requestId !== undefined) placed.requestId = requestId
  if (session !== undefined) placed.session = session
  if (timeInForce !== undefined) placed.timeInForce = timeInForce
  if (tags !== undefined) placed.tags = tags
  if (bookByMs !== undefined) placed.bookByMs = bookByMs
  if (context.isReserved === true) placed.reservedMs = leftMs(context)
  if (replaces !== undefined) placed.replaces = replaces
  if (replaceMode !== undefined) placed.replaceMode = replaceMode
  if (context.stages?.span !== undefined) placed.trace = context.stages.span.traceparent
  return placed
}

/**
 * Returns whether the thread could not confirm that it serves the market. A read then fails with OVERLOADED,
 * so the client can retry.
 */
function isUnconfirmed(answer: object): boolean {
  return isRejection(answer) && answer.rejected === 'OUTCOME_UNKNOWN'
}

/**
 * Returns the rejection of a write without an answer. If the thread was full or has moved, nothing was done; otherwise
 * the outcome is unknown.
 */
function writeFailure({ unanswered }: Unanswered): Rejection {
  return unanswered === 'full' || unanswered === 'moved'
    ? reject('OVERLOADED')
    : reject('OUTCOME_UNKNOWN')
}
