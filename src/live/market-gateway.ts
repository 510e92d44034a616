/**
 * The front's way to the market threads: finds the thread of a market, asks, and turns a missing
 * answer into the rejection that tells a client what to do.
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

/** What this front has heard of the markets: an answer comes after the events that it follows from. */
type Hearing = {
  /** How far it has heard of a market. */
  readonly seqOf?: (marketId: MarketId) => Sequence | undefined
  /**
   * Undefined where the market is followed and nothing is lost of its events. Else resolves when it is loaded anew;
   * one that is not followed is so from then on.
   */
  readonly heardAll?: (marketId: MarketId) => Promise<void> | undefined
}

/** What goes with an order to its market. */
export type OrderContext = RequestContext &
  Asker & {
    /** The session that the order ends with: its market's thread knows of it before the order rests. */
    readonly session?: string
    readonly timeInForce?: TimeInForce | undefined
  }

/** Each way takes a context: until when its answer is of use, and whose request it is. */
export type MarketGateway = {
  place(order: VerifiedOrder, context: OrderContext): Promise<OrderAccepted | Rejection>
  /** What the order was answered when it was first seen; undefined when its market does not know it. */
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
  /** Why the trader may place no order in the market for now; undefined when nothing is in the way. */
  standing(
    marketId: MarketId,
    trader: Address,
    context: RequestContext,
  ): Promise<Rejection | undefined>
  /**
   * Cancels all orders of the trader that are open or may come back, in one market or in all, and names
   * the first of them.
   */
  cancelAll(
    trader: Address,
    marketId: MarketId | undefined,
    context: RequestContext,
  ): Promise<CancelledOrders | Rejection>
  /**
   * Open orders of a trader, in one market or in all: the oldest behind a place, at most so many, and how
   * many there are in all.
   */
  openOrdersPage(
    asked: MarketThreadProtocol['OpenOrdersPage']['takes'],
    context: RequestContext,
  ): Promise<{ orders: OpenOrder[]; count: number } | Rejection>
  /** How many orders rest in the books, by chain. */
  countOrders(context: RequestContext): Promise<Map<number, number> | Rejection>
}

type CancelledOrders = {
  readonly orderHashes: OrderHash[]
  /** Those of them that have trades which are not settled. */
  readonly pending: PendingOfOrder[]
  count: number
}

/** Markets in which the orders of one trader are cancelled at once; the next follow. */
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

  /** Where events were lost, an answer waits until what they told is known here. */
  async function untilHeard(marketId: MarketId, context: RequestContext): Promise<void> {
    const loaded = heardAll?.(marketId)
    if (loaded !== undefined) await inTime(loaded, leftMs(context))
  }

  const leftMs = ({ deadlineAtMs }: RequestContext): number =>
    Math.max(1, deadlineAtMs - clock.nowMs())

  /** Asks for a write, and notes in the stages of its request what the answer's envelope tells. */
  async function write<K extends 'PlaceOrder' | 'CancelOrder'>(
    marketId: MarketId,
    type: K,
    message: MarketThreadProtocol[K]['takes'],
    context: RequestContext,
  ): Promise<MarketThreadProtocol[K]['answers']> {
    const { stages } = context
    const ref = refOf(marketId)
    // Before it is sent, so that what it brings about is heard before its answer.
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
      // The number of what this front still lacks would promise a reader too much.
      if (clock.nowMs() >= context.deadlineAtMs) return answer
      await inTime(loaded, leftMs(context))
    }
    const seq = seqOf?.(marketId)
    // A reader whose market is at this `seq` or beyond sees what was done.
    return seq === undefined ? answer : Object.assign(answer, { marketId, seq })
  }

  /** Cancels step by step what the trader has in a market; answers what went wrong. */
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
        // A market that is over and gone from its thread has no orders left to cancel.
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

  /** The same in all markets of a thread where the trader has orders, some of them at a time. */
  async function cancelInThread(
    thread: MarketRef,
    trader: Address,
    context: RequestContext,
    cancelled: CancelledOrders,
  ): Promise<Rejection | undefined> {
    // Where only trades are left, nothing rests, and the index of orders does not know of it.
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

/** These two say that nothing was done; otherwise it is not known what became of it. */
function writeFailure({ unanswered }: Unanswered): Rejection {
  return unanswered === 'full' || unanswered === 'moved'
    ? reject('OVERLOADED')
    : reject('OUTCOME_UNKNOWN')
}
