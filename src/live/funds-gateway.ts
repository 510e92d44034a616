/**
 * Sends requests to the accounts threads. Reserves the funds of an order before its market receives the order, and
 * releases them if the order is not placed.
 */

import type { Address } from '#domain/ids.ts'
import type { Order, VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { RequestContext } from '#http/request-context.ts'
import type { AccountsRequests, FundsView, ReserveOrder } from '#protocol/accounts.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'

type AccountsRef = Ref<AccountsRequests>

type CheckedOrder = Order & Pick<VerifiedOrder, 'orderHash' | 'permit'>
type Deadline = Pick<RequestContext, 'deadlineAtMs'>

export type FundsGateway = {
  /** Reserves the funds of an order. Returns undefined on success, otherwise a rejection. */
  reserve(order: VerifiedOrder, chainId: number, context: Deadline): Promise<Rejection | undefined>
  /** Releases the reservation of an order that was not placed. */
  release(order: VerifiedOrder): void
  /** Makes the same check as `reserve`, without reserving funds. */
  check(order: CheckedOrder, chainId: number, context: Deadline): Promise<Rejection | undefined>
  funds(chainId: number, trader: Address, context: Deadline): Promise<FundsView | Rejection>
}

export function makeFundsGateway(
  threads: readonly AccountsRef[],
  threadOf: (trader: Address) => number,
  clock: Pick<Clock, 'nowMs'>,
): FundsGateway {
  const refOf = (trader: Address): AccountsRef => {
    const ref = threads[threadOf(trader)]
    if (ref === undefined) throw new Error(`no accounts thread serves ${trader}`)
    return ref
  }

  async function ask(
    type: 'Reserve' | 'Check',
    asked: ReserveOrder,
    { deadlineAtMs }: Deadline,
  ): Promise<Rejection | undefined> {
    const leftMs = Math.max(1, deadlineAtMs - clock.nowMs())
    const answer = await refOf(asked.trader).ask(type, { order: asked, deadlineAtMs }, leftMs)
    // If the accounts thread does not answer, the order is not placed, so the client may simply retry.
    if (isUnanswered(answer))
      return reject(
        'OVERLOADED',
        undefined,
        'the exchange cannot reserve funds for the order now: retry shortly',
      )
    return isRejection(answer) ? answer : undefined
  }

  return {
    reserve: (order, chainId, context) => ask('Reserve', askedOf(order, chainId), context),
    release: ({ trader, orderHash }) => refOf(trader).tell('Release', { orderHash }),
    check: (order, chainId, context) => ask('Check', askedOf(order, chainId), context),
    async funds(chainId, trader, { deadlineAtMs }) {
      const leftMs = Math.max(1, deadlineAtMs - clock.nowMs())
      const answer = await refOf(trader).ask('Funds', { chainId, trader, deadlineAtMs }, leftMs)
      return isUnanswered(answer) ? reject('OVERLOADED') : answer
    },
  }
}

/** Returns the fields of an order that the accounts thread needs. */
function askedOf(
  { orderHash, marketId, trader, side, outcome, price, size, permit }: CheckedOrder,
  chainId: number,
): ReserveOrder {
  const order = { chainId, orderHash, marketId, trader, side, outcome, price, size }
  if (permit === undefined) return { ...order, permit }
  return { ...order, permit: permit.nonce, permitValue: permit.value }
}
