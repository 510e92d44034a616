/**
 * Promises: needs granted to orders whose events have not been read yet. One ends when an event of its
 * order is read; when as many askers as were granted it have come to nothing; or when its order can no
 * longer be under way: its deadline and a grace have passed, and the logs have been read up to an end that
 * was there after that.
 */

import type { OrderHash } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { ReserveOrder } from '#protocol/accounts.ts'
import { addPromise, removePromise } from './account.ts'
import { holdPermit } from './permits.ts'
import type { Account, AccountsState, Holding } from './state.ts'

/** Promises that one turn of the timer looks at. */
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
    asked: 1,
    untilMs: deadlineAtMs + state.rules.graceMs,
  })
}

/**
 * Rejects an order that is under way with another permit, or with one while this has none. The permit is no part of
 * an order's hash, and its market takes whichever comes first: what was judged for one must not pass the other.
 */
export function otherPermitFlaw(
  { promises }: AccountsState,
  { orderHash, permit }: ReserveOrder,
): Rejection | undefined {
  const promised = promises.get(orderHash)
  if (promised === undefined || promised.permit?.nonce === permit) return undefined
  const how =
    promised.permit === undefined
      ? 'without one'
      : `with the permit of nonce ${promised.permit.nonce}`
  const detail = `permitSignature must not change: the same order is under way ${how}`
  return reject('INVALID_PERMIT', 'permitSignature', detail)
}

/** The order is promised to one more asker; false when nothing is promised to it. */
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

/** An event has told of the order: from now on that is what counts. */
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

/** Ends those whose orders will not come any more. The oldest stand first. */
export function expirePromises(state: AccountsState): void {
  let looked = 0
  for (const promised of state.promises.values()) {
    if (looked++ === PROMISES_LOOKED_AT_MAX) return
    if (promised.untilMs < state.caughtUpMs) removePromise(state, promised)
  }
}
