/**
 * Asks the exchange, before the relayer pays for an operation, which orders were accepted and which sales are
 * unsettled. The market threads are asked first, because the database lags behind them. Orders that a market thread has
 * forgotten are looked up in the database.
 */

import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Redemption } from '#domain/relay.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'
import type { Query } from '#store/reads/queries.ts'
import type { AcceptedOrders } from '../chain/relay-cancellations.ts'
import { tradesPending } from '../guards.ts'

type MarketRef = Ref<MarketThreadProtocol>

type RelayKnowledge = AcceptedOrders & {
  salesFlaw(owner: Address, redemption: Redemption, field: string): Promise<Rejection | undefined>
}

const ASK_MS = 2_000

export function makeRelayKnowledge(exchange: {
  readonly query: Query
  readonly marketOf: (marketId: MarketId) => MarketRef
}): RelayKnowledge {
  const { query, marketOf } = exchange

  return {
    async accepted(orders) {
      const isKnown = await Promise.all(
        orders.map(async ({ marketId, orderHash, outcome }) => {
          const asked = { marketId, orderHash, outcome }
          const answer = await marketOf(marketId).ask('RecallOrder', asked, ASK_MS)
          if (isUnanswered(answer)) throw away()
          if ('unknown' in answer) return false
          // A market answers `ORDER_CLOSED` only for an order that it knows, so the exchange has accepted this order.
          if (isRejection(answer)) return answer.rejected === 'ORDER_CLOSED'
          return true
        }),
      )
      const orderHashes = orders.filter((_, at) => !isKnown[at]).map(({ orderHash }) => orderHash)
      if (orderHashes.length === 0) return isKnown
      const stored = new Set(await query('storedOrders', { orderHashes }))
      return orders.map(({ orderHash }, at) => isKnown[at] === true || stored.has(orderHash))
    },

    async salesFlaw(trader, { conditionId: marketId, indexSets }, field) {
      const outcomes = indexSets.map((indexSet) => (indexSet === '1' ? 0 : 1))
      const asked = { marketId, trader, outcomes }
      const answer = await marketOf(marketId).ask('UnsettledSales', asked, ASK_MS)
      if (isUnanswered(answer)) throw away()
      if (isRejection(answer)) return answer
      if (answer.count > 0) return tradesPending(field, answer, 'these tokens')
      if (!answer.isOpen) return undefined
      const detail = `the market of ${field} still accepts orders: retry when it has closed`
      return reject('ORDERS_OPEN', field, detail)
    },
  }
}

function away(): Fault {
  return new Fault('MARKET_AWAY', 'a market thread did not answer', { retryable: true })
}
