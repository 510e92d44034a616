/**
 * Handles promises. A promise is a reservation of funds for an order whose events are not read from the log yet. It
 * ends when an event of its order is read, or when every request to which it was granted has released it.
 *
 * A promise also ends when its order can no longer arrive. The market refuses the order after the deadline of its
 * request (`reservedMs`). A grace period after the deadline allows for an append in progress. If the logs have been
 * read to their end after this period, the order can no longer arrive.
 */

import type { OrderHash } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { ReserveOrder } from '#protocol/accounts.ts'
import { addPromise, removePromise } from './account.ts'
import { holdPermit } from './permits.ts'
import type { Account, AccountsState, Holding } from './state.ts'

/** Maximum number of promises that one `Tick` examines. */
const PROMISES_LOOKED_AT_MAX = 10_000

export function promise(
  state: AccountsState,
  order: ReserveOrder,
  by: { readonly account: Account; readonly holding: Holding | undefined; readonly need: bigint },
  deadlineAtMs: number,
): void {
  addPromise(state, {
    orderHash: order.orderHash,
    ...by,
    permit: holdPermit(by.account, order.orderHash, order.permit),
    permitValue: order.permitValue,
    asked: 1,
    untilMs: deadlineAtMs + state.rules.graceMs,
  })
}

/**
 * Rejects a second submission of an order in progress if the nonce or value of its permit differs from the first one’s,
 * or if only one of the submissions has a permit. The permit is not part of an order’s hash, and the market accepts the
 * first submission that arrives. Without this check, the thread could check one permit, and the market could accept the
 * other.
 */
export function otherPermitFlaw(
  { promises }: AccountsState,
  { orderHash, permit, permitValue }: ReserveOrder,
): Rejection | undefined {
  const promised = promises.get(orderHash)
  if (promised === undefined) return undefined
  if (promised.permit?.nonce === permit && promised.permitValue === permitValue) return undefined
  const how =
    promised.permit === undefined
      ? 'without a permit'
      : `with the permit of nonce ${promised.permit.nonce} and value ${promised.permitValue}`
  const detail = `permitSignature must not change: the exchange is already processing the same order ${how}`
  return reject('INVALID_PERMIT', 'permitSignature', detail)
}

/** Grants the order’s existing promise to one more request; returns false if the order has no promise. */
export function promiseAgain(
  state: AccountsState,
  orderHash: OrderHash,
  deadlineAtMs: number,
): boolean {
  const promised = state.promises.get(orderHash)
  if (promised === undefined) return false
  promised.asked++
  promised.untilMs = Math.max(promised.untilMs, deadlineAtMs + state.rules.graceMs)
  return true
}

/** Ends the promise: an event of the order was read, so the order’s own need is counted from now on. */
export function keepPromise(state: AccountsState, orderHash: OrderHash): void {
  if (state.promises.size === 0) return
  const promised = state.promises.get(orderHash)
  if (promised !== undefined) removePromise(state, promised)
}

export function releasePromise(state: AccountsState, orderHash: OrderHash): void {
  const promised = state.promises.get(orderHash)
  if (promised === undefined) return
  promised.asked--
  if (promised.asked === 0) removePromise(state, promised)
}

/** Ends promises for orders that can no longer arrive, starting with the oldest promises. */
export function expirePromises(state: AccountsState): void {
  let looked = 0
  for (const promised of state.promises.values()) {
    if (looked++ === PROMISES_LOOKED_AT_MAX) return
    if (promised.untilMs < state.caughtUpMs) removePromise(state, promised)
  }
}
