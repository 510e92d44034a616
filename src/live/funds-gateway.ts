/**
 * The front's way to the accounts: reserves what an order needs before its market sees it, and ends the
 * reservation of an order that was not placed.
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

type CheckedOrder = Order & Pick<VerifiedOrder, 'orderHash'> & Pick<ReserveOrder, 'permit'>
type Deadline = Pick<RequestContext, 'deadlineAtMs'>

export type FundsGateway = {
  /** Undefined once the funds of the order are reserved; else why they are not. */
  reserve(order: VerifiedOrder, chainId: number, context: Deadline): Promise<Rejection | undefined>
  /** Ends the reservation of an order that was not placed. */
  release(order: VerifiedOrder): void
  /** The same as `reserve`, and nothing is reserved. */
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
    if (ref === undefined) throw new Error(`no thread for ${trader}`)
    return ref
  }

  async function ask(
    type: 'Reserve' | 'Check',
    asked: ReserveOrder,
    { deadlineAtMs }: Deadline,
  ): Promise<Rejection | undefined> {
    const leftMs = Math.max(1, deadlineAtMs - clock.nowMs())
    const answer = await refOf(asked.trader).ask(type, { order: asked, deadlineAtMs }, leftMs)
    // Nothing was placed yet, so a client may simply try again.
    if (isUnanswered(answer)) return reject('OVERLOADED', undefined, 'the funds cannot be reserved')
    return isRejection(answer) ? answer : undefined
  }

  return {
    reserve: (order, chainId, context) =>
      ask('Reserve', askedOf(order, chainId, order.permit?.nonce), context),
    release: ({ trader, orderHash }) => refOf(trader).tell('Release', { orderHash }),
    check: (order, chainId, context) =>
      ask('Check', askedOf(order, chainId, order.permit), context),
    async funds(chainId, trader, { deadlineAtMs }) {
      const leftMs = Math.max(1, deadlineAtMs - clock.nowMs())
      const answer = await refOf(trader).ask('Funds', { chainId, trader, deadlineAtMs }, leftMs)
      return isUnanswered(answer) ? reject('OVERLOADED') : answer
    },
  }
}

/** What accounts need to know of an order, and nothing that they do not. */
function askedOf(
  { orderHash, marketId, trader, side, outcome, price, size }: Omit<CheckedOrder, 'permit'>,
  chainId: number,
  permit: ReserveOrder['permit'],
): ReserveOrder {
  return { chainId, orderHash, marketId, trader, side, outcome, price, size, permit }
}
