/**
 * What the relayer finds out about a cancellation on chain before it pays for it: whether it would
 * change anything, and whether the contract takes it now.
 */

import type { OrderDomain } from '#domain/order-hash.ts'
import { orderHash } from '#domain/order-hash.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { CancelAllBefore, CancelOrders } from '#domain/relay.ts'
import type { Call } from './call.ts'
import type { SettlementContract } from './settlement-contract.ts'

type Cancellation = CancelOrders | CancelAllBefore

type RelayCancellations = {
  flaw(operation: Cancellation): Promise<Rejection | undefined>
  call(operation: Cancellation): Call
}

export function relayCancellations(settlement: SettlementContract): RelayCancellations {
  /** An order that is filled or withdrawn already needs no cancellation; one of them is enough. */
  async function ordersFlaw(operation: CancelOrders): Promise<Rejection | undefined> {
    const { chainId, orders } = operation
    const domain: OrderDomain = { chainId, verifyingContract: settlement.address }
    const states = await Promise.all(
      orders.map((order) => settlement.orderState(orderHash(order, domain))),
    )
    const isOpen = states.some(
      ({ filled, cancelledFromSec }, at) =>
        cancelledFromSec === 0 && filled < BigInt(orders[at]!.size),
    )
    if (isOpen) return undefined
    return reject(
      'WOULD_REVERT',
      'orders',
      'there is nothing to cancel: all are filled or withdrawn',
    )
  }

  async function epochFlaw({ owner, nonce }: CancelAllBefore): Promise<Rejection | undefined> {
    const { next, nextFromSec } = await settlement.epochOf(owner)
    if (BigInt(nonce) > next) return undefined
    const words = `orders with a nonce below ${next} are withdrawn already, from ${nextFromSec} on`
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
