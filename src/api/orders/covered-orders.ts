/** Places orders whose funds must be reserved first; releases the reservation of an order that was not placed. */

import type { MarketId } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, type RejectionCode, reject } from '#domain/rejection.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway, OrderContext } from '#live/market-gateway.ts'
import type { OrderAccepted } from '#protocol/market.ts'

type CoveredPorts = {
  readonly board: MarketBoard
  readonly gateway: Pick<MarketGateway, 'place' | 'placeAll' | 'recall'>
  readonly funds: FundsGateway
}

export function makeCoveredOrders({
  board,
  gateway,
  funds,
}: CoveredPorts): Pick<MarketGateway, 'place' | 'placeAll'> {
  /**
   * Reserves the order's funds and returns undefined. If they cannot be reserved, returns the rejection. If the market
   * has already accepted this order, returns its earlier answer instead of the rejection.
   */
  async function refusedOf(
    order: VerifiedOrder,
    context: OrderContext,
  ): Promise<OrderAccepted | Rejection | undefined> {
    const chainId = board.markets.get(order.marketId)?.market.chainId
    if (chainId === undefined) return undefined
    const begunMs = performance.now()
    const refused = await funds.reserve(order, chainId, context)
    context.stages?.span?.part('reserve', begunMs, performance.now())
    if (refused === undefined) return undefined
    // A client may repeat an order that the market has already accepted. The client then gets the earlier answer again,
    // even if the trader's funds no longer suffice.
    const before = await gateway.recall(order, context)
    if (before === undefined || isRejection(before)) return refused
    const { left: _, ...accepted } = before
    return accepted
  }

  function releaseUnplaced(order: VerifiedOrder, answer: OrderAccepted | Rejection): void {
    const isNew = !isRejection(answer) && answer.duplicate !== true
    const isUnknown = isRejection(answer) && OUTCOME_UNKNOWN.has(answer.rejected)
    if (!isNew && !isUnknown) funds.release(order)
  }

  return {
    async place(order, context) {
      const refused = await refusedOf(order, context)
      if (refused !== undefined) return refused
      const answer = await gateway.place(order, { ...context, isReserved: true })
      releaseUnplaced(order, answer)
      return answer
    },

    async placeAll(marketId: MarketId, items, context) {
      const refused = await Promise.all(
        items.map(({ order, context: own }) => refusedOf(order, own)),
      )
      const passed = items
        .filter((_, at) => refused[at] === undefined)
        .map(({ order, context: own }) => ({ order, context: { ...own, isReserved: true } }))
      const done = passed.length === 0 ? [] : await gateway.placeAll(marketId, passed, context)
      const answers = isRejection(done) ? passed.map(() => done) : [...done]
      return items.map(({ order }, at) => {
        const before = refused[at]
        if (before !== undefined) return before
        const answer = answers.shift() ?? reject('INTERNAL')
        releaseUnplaced(order, answer)
        return answer
      })
    },
  }
}

/** Codes of rejections after which the market may still have placed the order. */
export const OUTCOME_UNKNOWN: ReadonlySet<RejectionCode> = new Set(['OUTCOME_UNKNOWN', 'INTERNAL'])
