/**
 * Requests to market threads: finds the thread of a market, sends the request, and turns a missing answer into a
 * rejection that tells the client what to do.
 */

import type { Address, MarketId, OrderHash, Sequence } from '#domain/ids.ts'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { byAge, type Side, type TimeInForce, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Asker } from '#http/limits.ts'
import type { RequestContext } from '#http/request-context.ts'
import type {
  OpenOrder,
  OrderAccepted,
  OrderCancelled,
  PendingOfOrder,
  RecalledOrder,
} from '#protocol/market.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered, type Unanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { Ref } from '#runtime/ref.ts'

export type MarketRef = Ref<MarketThreadProtocol>

/** State of this front's markets: an answer arrives after the events it follows from. */
type Hearing = {
  /** Returns the last change of the market known here. */
  readonly seqOf?: (marketId: MarketId) => Sequence | undefined
  /**
   * Undefined if the market is followed and no event is lost. Otherwise resolves when it is loaded again; a market that
   * was not followed is followed from then on.
   */
  readonly heardAll?: (marketId: MarketId) => Promise<void> | undefined
}

/** Context that goes with an order to its market. */
export type OrderContext = RequestContext &
  Asker & {
    /** Session that the order ends with: the market's thread registers it before the order rests. */
    readonly session?: string
    readonly timeInForce?: TimeInForce | undefined
  }

/** Each method takes a context: the deadline and the id of its request. */
export type MarketGateway = {
  place(order: VerifiedOrder, context: OrderContext): Promise<OrderAccepted | Rejection>
  /** Returns the first answer to an order; undefined if its market does not know it. */
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
  /** Returns why the trader may place no order in the market now; undefined if nothing prevents it. */
  standing(
    marketId: MarketId,
    trader: Address,
    context: RequestContext,
  ): Promise<Rejection | undefined>
  /**
   * Cancels all orders of the trader that are open or may return, in one market or in all, and lists the first of them.
   */
  cancelAll(
    trader: Address,
    marketId: MarketId | undefined,
    context: RequestContext,
  ): Promise<CancelledOrders | Rejection>
  /**
   * Returns open orders of a trader, in one market or in all: the oldest after a cursor, up to a limit, and the total
   * count.
   */
  openOrdersPage(
    asked: MarketThreadProtocol['OpenOrdersPage']['takes'],
    context: RequestContext,
  ): Promise<{ orders: OpenOrder[]; count: number } | Rejection>
  /** Returns the number of resting orders by chain. */
  countOrders(context: RequestContext): Promise<Map<number, number> | Rejection>
}

type CancelledOrders = {
  readonly orderHashes: OrderHash[]
  /** Cancelled orders with unsettled trades. */
  readonly pending: PendingOfOrder[]
  count: number
}

/** Markets in which one trader's orders are cancelled concurrently. */
const CANCELLED_MARKETS_MAX = 64

export function makeGateway(
  threads: readonly MarketRef[],
  threadOf: (marketId: MarketId) => number,
  clock: Pick<Clock, 'nowMs'>,
  hearing: Hearing = {},
): MarketGateway {
  const refOf = (marketId: MarketId): MarketRef => {
    const ref = threads[threadOf(marketId)]
    if (ref === undefined) throw new Error(`no thread for ${marketId}`)
    return ref
  }
  const { seqOf, heardAll } = hearing

  /** If events were lost, delays an answer until their effect is known here. */
  async function untilHeard(marketId: MarketId, context: RequestContext): Promise<void> {
    const loaded = heardAll?.(marketId)
    if (loaded !== undefined) await inTime(loaded, leftMs(context))
  }

  const leftMs = ({ deadlineAtMs }: RequestContext): number =>
    Math.max(1, deadlineAtMs - clock.nowMs())

  /** Sends a write, and records the stages from the answer's envelope. */
  async function write<K extends 'PlaceOrder' | 'CancelOrder'>(
    marketId: MarketId,
    type: K,
    message: MarketThreadProtocol[K]['takes'],
    context: RequestContext,
  ): Promise<MarketThreadProtocol[K]['answers']> {
    const { stages } = context
    const ref = refOf(marketId)
    // Called before sending, so that the effects arrive before the answer.
    heardAll?.(marketId)
    const answer = await (stages?.asked === true
      ? ref.ask(type, message, leftMs(context), (times) => {
          stages.market = times
        })
      : ref.ask(type, message, leftMs(context)))
    if (isUnanswered(answer)) return writeFailure(answer)
    if (stages !== undefined) stages.answerSentAtMs = ref.heardSentAtMs
    if (isRejection(answer)) return answer
    for (let loaded = heardAll?.(marketId); loaded !== undefined; loaded = heardAll?.(marketId)) {
      // A sequence number that this front lacks would promise a reader too much.
      if (clock.nowMs() >= context.deadlineAtMs) return answer
      await inTime(loaded, leftMs(context))
    }
    const seq = seqOf?.(marketId)
    // A reader at this `seq` or later sees the effect.
    return seq === undefined ? answer : Object.assign(answer, { marketId, seq })
  }

  /** Cancels the trader's orders in a market step by step; returns the failure, if any. */
  async function cancelInMarket(
    marketId: MarketId,
    trader: Address,
    context: RequestContext,
    cancelled: CancelledOrders,
  ): Promise<Rejection | undefined> {
    heardAll?.(marketId)
    for (let more = true; more; ) {
      const answer = await refOf(marketId).ask(
        'CancelOrders',
        { marketId, trader },
        leftMs(context),
      )
      if (isUnanswered(answer)) return writeFailure(answer)
      await untilHeard(marketId, context)
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

  /** Cancels in all markets of a thread where the trader has orders, some at a time. */
  async function cancelInThread(
    thread: MarketRef,
    trader: Address,
    context: RequestContext,
    cancelled: CancelledOrders,
  ): Promise<Rejection | undefined> {
    // Orders with only pending trades do not rest, so the index of orders lacks them.
    const trading = await thread.ask('PendingMarkets', { trader }, leftMs(context))
    if (isUnanswered(trading) || isRejection(trading)) return reject('OVERLOADED')
    for (const marketId of trading.marketIds) {
      const failure = await cancelInMarket(marketId, trader, context, cancelled)
      if (failure !== undefined) return failure
    }
    for (;;) {
      const asked = { trader, limit: CANCELLED_MARKETS_MAX }
      const found = await thread.ask('MarketsOf', asked, leftMs(context))
      if (isUnanswered(found) || isRejection(found)) return reject('OVERLOADED')
      if (found.marketIds.length === 0) return undefined
      const ended = await Promise.all(
        found.marketIds.map((marketId) => cancelInMarket(marketId, trader, context, cancelled)),
      )
      const failure = ended.find((each) => each !== undefined)
      if (failure !== undefined) return failure
    }
  }

  return {
    place(order, context) {
      const { requestId, session, timeInForce } = context
      const message: MarketThreadProtocol['PlaceOrder']['takes'] = { order }
      if (requestId !== undefined) message.requestId = requestId
      if (session !== undefined) message.session = session
      if (timeInForce !== undefined) message.timeInForce = timeInForce
      return write(order.marketId, 'PlaceOrder', message, context)
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
    async cancelAll(trader, marketId, context) {
      const cancelled: CancelledOrders = { orderHashes: [], pending: [], count: 0 }
      const ended =
        marketId === undefined
          ? await Promise.all(
              threads.map((thread) => cancelInThread(thread, trader, context, cancelled)),
            )
          : [await cancelInMarket(marketId, trader, context, cancelled)]
      return ended.find((failure) => failure !== undefined) ?? cancelled
    },
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
        // A rejection is not in the protocol's table: the thread is full, or its log is away.
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
      const counts = new Map<number, number>()
      for (const answer of answers) {
        if (isUnanswered(answer) || isRejection(answer)) return reject('OVERLOADED')
        for (const [chainId, orders] of answer.chains) {
          counts.set(chainId, (counts.get(chainId) ?? 0) + orders)
        }
      }
      return counts
    },
  }
}

/** The thread could not confirm that it serves the market. A read should be retried. */
function isUnconfirmed(answer: object): boolean {
  return isRejection(answer) && answer.rejected === 'OUTCOME_UNKNOWN'
}

/** In these two cases nothing was done; otherwise the outcome is unknown. */
function writeFailure({ unanswered }: Unanswered): Rejection {
  return unanswered === 'full' || unanswered === 'moved'
    ? reject('OVERLOADED')
    : reject('OUTCOME_UNKNOWN')
}
