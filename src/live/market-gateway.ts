/**
 * The front's way to the market threads: finds the thread of a market, asks, and turns a missing
 * answer into the rejection that tells a client what to do.
 */

import type { OpenOrder, OrderAccepted, OrderCancelled } from '#actors/market.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { byAge, type Side, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { WriteStages } from '#http/write-stages.ts'
import { isUnanswered, type Unanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'
import type { TimedAnswer } from '#runtime/serve.ts'

export type MarketRef = Ref<MarketThreadProtocol>

export type MarketGateway = {
  /** `requestId` goes along, so that the logs of both threads name the same request. */
  place(
    order: VerifiedOrder,
    deadlineMs: number,
    requestId?: string,
    stages?: WriteStages,
  ): Promise<OrderAccepted | Rejection>
  cancel(
    order: {
      marketId: MarketId
      orderHash: OrderHash
      side: Side
      trader?: Address
      requestId?: string
    },
    deadlineMs: number,
    stages?: WriteStages,
  ): Promise<OrderCancelled | Rejection>
  /** Cancels all open orders of the trader, in one market or in all of these. */
  cancelAll(
    trader: Address,
    markets: Iterable<MarketId>,
    deadlineMs: number,
  ): Promise<OrderHash[] | Rejection>
  /** Open orders of a trader, in one market or in all. */
  openOrders(
    trader: Address,
    marketId: MarketId | undefined,
    deadlineMs: number,
  ): Promise<OpenOrder[] | Rejection>
  /** The oldest of them behind a place, at most so many, and how many there are in all. */
  openOrdersPage(
    asked: MarketThreadProtocol['OpenOrdersPage']['takes'],
    deadlineMs: number,
  ): Promise<{ orders: OpenOrder[]; count: number } | Rejection>
  /** How many orders rest in the books, by chain. */
  countOrders(deadlineMs: number): Promise<Map<number, number> | Rejection>
}

export function makeGateway(
  threads: readonly MarketRef[],
  threadOf: (marketId: MarketId) => number,
): MarketGateway {
  const refOf = (marketId: MarketId): MarketRef => {
    const ref = threads[threadOf(marketId)]
    if (ref === undefined) throw new Error(`no thread for ${marketId}`)
    return ref
  }
  return {
    async place(order, deadlineMs, requestId, stages) {
      const command = requestId === undefined ? { order } : { order, requestId }
      const message = stages?.asked === true ? { ...command, timed: true } : command
      const ref = refOf(order.marketId)
      const answer = await ref.ask('PlaceOrder', message, deadlineMs)
      if (isUnanswered(answer)) return writeFailure(answer)
      return stages === undefined ? answer : answered(stages, ref.heardSentAtMs, answer)
    },
    async cancel(order, deadlineMs, stages) {
      const message = stages?.asked === true ? { ...order, timed: true } : order
      const ref = refOf(order.marketId)
      const answer = await ref.ask('CancelOrder', message, deadlineMs)
      if (isUnanswered(answer)) return writeFailure(answer)
      return stages === undefined ? answer : answered(stages, ref.heardSentAtMs, answer)
    },
    async cancelAll(trader, markets, deadlineMs) {
      const answers = await Promise.all(
        [...markets].map((marketId) =>
          refOf(marketId).ask('CancelOrders', { marketId, trader }, deadlineMs),
        ),
      )
      const cancelled: OrderHash[] = []
      for (const answer of answers) {
        if (isUnanswered(answer)) return writeFailure(answer)
        if (isRejection(answer)) {
          // A market that is over and gone from its thread has no orders left to cancel.
          if (answer.rejected === 'MARKET_NOT_FOUND') continue
          return answer
        }
        cancelled.push(...answer.orderHashes)
      }
      return cancelled
    },
    async openOrders(trader, marketId, deadlineMs) {
      const asked = marketId === undefined ? threads : [refOf(marketId)]
      const message = marketId === undefined ? { trader } : { trader, marketId }
      const answers = await Promise.all(
        asked.map((thread) => thread.ask('OpenOrders', message, deadlineMs)),
      )
      const orders: OpenOrder[] = []
      for (const answer of answers) {
        // A rejection is not in the protocol's table: the thread is full, or its log is away.
        if (isUnanswered(answer) || isRejection(answer)) return reject('OVERLOADED')
        orders.push(...answer.orders)
      }
      return orders
    },
    async openOrdersPage(asked, deadlineMs) {
      const from = asked.marketId === undefined ? threads : [refOf(asked.marketId)]
      const answers = await Promise.all(
        from.map((thread) => thread.ask('OpenOrdersPage', asked, deadlineMs)),
      )
      const orders: OpenOrder[] = []
      let count = 0
      for (const answer of answers) {
        if (isUnanswered(answer) || isRejection(answer)) return reject('OVERLOADED')
        orders.push(...answer.orders)
        count += answer.count
      }
      return { orders: orders.sort(byAge).slice(0, asked.limit), count }
    },
    async countOrders(deadlineMs) {
      const answers = await Promise.all(
        threads.map((thread) => thread.ask('CountOrders', {}, deadlineMs)),
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

/** Notes when the answer was sent, and takes out of it what only the stages are to know. */
function answered<Answer extends TimedAnswer>(
  stages: WriteStages,
  sentAtMs: number,
  answer: Answer,
): Answer {
  stages.answerSentAtMs = sentAtMs
  if (!stages.asked) return answer
  const { times, ...rest } = answer
  stages.market = times
  return rest as Answer
}

/** Only `full` is said before anything was sent; otherwise nobody knows what became of it. */
function writeFailure({ unanswered }: Unanswered): Rejection {
  return unanswered === 'full' ? reject('OVERLOADED') : reject('OUTCOME_UNKNOWN')
}
