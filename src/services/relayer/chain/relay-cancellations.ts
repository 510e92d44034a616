/**
 * Checks a cancellation on chain before the relayer pays for it: whether the cancellation would change anything, and
 * whether the contract accepts it now.
 */

import type { Call } from '#chain/call.ts'
import type { SettlementContract } from '#chain/settlement-contract.ts'
import type { OrderHash } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { orderHash } from '#domain/order-hash.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { CancelAllBefore, CancelOrders } from '#domain/relay.ts'

type Cancellation = CancelOrders | CancelAllBefore

type RelayCancellations = {
  flaw(operation: Cancellation): Promise<Rejection | undefined>
  call(operation: Cancellation): Call
}

/** Look-up of the orders that the exchange has accepted. */
export type AcceptedOrders = {
  /** Returns which of the orders the exchange has accepted. */
  readonly accepted: (
    orders: readonly (Pick<Order, 'marketId' | 'outcome'> & { readonly orderHash: OrderHash })[],
  ) => Promise<readonly boolean[]>
}

export function relayCancellations(
  settlement: SettlementContract,
  { accepted }: AcceptedOrders,
): RelayCancellations {
  /**
   * Returns why a cancellation is not worth its gas; undefined if it is. The exchange must have accepted every order,
   * because an order that it has not accepted cannot settle. At least one order must be neither filled nor withdrawn.
   */
  async function ordersFlaw(operation: CancelOrders): Promise<Rejection | undefined> {
    const { chainId, orders } = operation
    const domain: OrderDomain = { chainId, verifyingContract: settlement.address }
    const asked = orders.map(({ marketId, outcome, ...order }) => ({
      ...{ marketId, outcome },
      orderHash: orderHash({ marketId, outcome, ...order }, domain),
    }))
    const stranger = (await accepted(asked)).indexOf(false)
    if (stranger >= 0) {
      const field = `orders[${stranger}]`
      const detail = `${field} must be an order that this exchange has accepted before`
      return reject('ORDER_NOT_FOUND', field, detail)
    }
    const states = await Promise.all(asked.map((one) => settlement.orderState(one.orderHash)))
    const isOpen = states.some(
      ({ filled, cancelledFromSec }, at) =>
        cancelledFromSec === 0 && filled < BigInt(orders[at]!.size),
    )
    if (isOpen) return undefined
    return reject(
      'WOULD_REVERT',
      'orders',
      'all orders of the request are already filled or withdrawn',
    )
  }

  async function epochFlaw({ owner, nonce }: CancelAllBefore): Promise<Rejection | undefined> {
    const { next, nextFromSec } = await settlement.epochOf(owner)
    if (BigInt(nonce) > next) return undefined
    const words =
      `nonce must be above ${next}: orders with a nonce below ${next} are already withdrawn, from ${nextFromSec} ` +
      'on (Unix seconds)'
    return reject('WOULD_REVERT', 'nonce', words)
  }

  return {
    flaw: (operation) =>
      operation.kind === 'cancel-orders' ? ordersFlaw(operation) : epochFlaw(operation),
    call(operation) {
      const { owner: trader } = operation
      const deadline = BigInt(operation.deadline)
      if (operation.kind === 'cancel-orders') {
        const { orders } = operation
        return settlement.cancelOrdersWithPermitCall({ trader, orders, deadline }, operation)
      }
      const nonce = BigInt(operation.nonce)
      return settlement.cancelAllBeforeWithPermitCall({ trader, nonce, deadline }, operation)
    },
  }
}
