/**
 * Decides which permits of an account count. A permit that counts allows the payments of its order. The token accepts
 * an owner's permits only in the order of their nonces, without gaps. So a permit counts only if the trader has an
 * open, pending or promised order for every nonce from the chain's next nonce up to its own. Settlement sends all of
 * these permits.
 *
 * A permit stops counting when its nonce is used on the chain, no matter by whom. It also stops counting when an order
 * with a lower nonce ends and its permit was not used, because then this nonce is missing. From then on, the allowance
 * on the chain must cover the order.
 *
 * The needs of an order whose permit does not count are part of the account's `unpermitted` needs.
 *
 *   chain's next nonce 5      orders with nonces 5, 6, 8      5 and 6 count, 8 does not, because 7 is missing
 */

import type { OrderHash, Uint64 } from '#domain/ids.ts'
import { PERMITS_AHEAD_MAX } from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Account, PermitNeed, Sums } from './state.ts'

export function newSums(): Sums {
  return { open: 0n, openMin: 0n, pending: 0n, promised: 0n }
}

/**
 * Returns the permit of an order, and counts one more use of it. The order itself, each of its trades and its
 * reservation (promise) use the permit. Returns undefined if the order has no permit. If two orders have permits with
 * the same nonce, the token accepts only one of them. So the second permit does not count while the first is in use.
 */
export function holdPermit(
  account: Account,
  orderHash: OrderHash,
  nonce: Uint64 | undefined,
): PermitNeed | undefined {
  if (nonce === undefined) return undefined
  const { permits, nonces } = account
  let permit = permits.get(orderHash)
  if (permit === undefined) {
    permit = { nonce, orderHash, uses: 0, counts: false, needs: newSums() }
    permits.set(orderHash, permit)
    const number = BigInt(nonce)
    if (!nonces.has(number)) {
      nonces.set(number, permit)
      recountPermits(account)
    }
  }
  permit.uses++
  return permit
}

/** Ends one use of the permit. */
export function dropPermit(account: Account, permit: PermitNeed | undefined): void {
  if (permit === undefined) return
  permit.uses--
  if (permit.uses > 0) return
  const { permits, nonces } = account
  const number = BigInt(permit.nonce)
  permits.delete(permit.orderHash)
  if (nonces.get(number) !== permit) return
  nonces.delete(number)
  const next = permits.size > nonces.size ? waitingFor(account, permit.nonce) : undefined
  if (next !== undefined) nonces.set(number, next)
  recountPermits(account)
}

function waitingFor({ permits }: Account, nonce: Uint64): PermitNeed | undefined {
  for (const permit of permits.values()) if (permit.nonce === nonce) return permit
  return undefined
}

/**
 * Counts an amount that an order needs. If the order has a permit, adds the amount to the permit's needs. If the order
 * has no permit, or the token would not accept the permit yet, also adds the amount to `unpermitted`, which the
 * allowance must cover.
 */
export function addAllowed(
  account: Account,
  permit: PermitNeed | undefined,
  more: Partial<Sums>,
): void {
  if (permit !== undefined) add(permit.needs, more)
  if (permit?.counts !== true) add(account.unpermitted, more)
}

/**
 * Recomputes which permits the token would accept. Called after the trader’s nonce on the chain has changed, or a
 * permit was added or removed.
 */
export function recountPermits(account: Account): void {
  const { nonces, nonce, permitsFrom, permitsEnd } = account
  let end = nonce
  while (end - nonce < PERMITS_AHEAD_MAX && nonces.has(end)) end++
  account.permitsFrom = nonce
  account.permitsEnd = end
  for (let at = permitsFrom; at < permitsEnd; at++) {
    if (at < nonce || at >= end) setCounts(account, nonces.get(at), false)
  }
  for (let at = nonce; at < end; at++) setCounts(account, nonces.get(at), true)
}

/**
 * Rejects a permit if its nonce is not the trader’s next unused one. Also rejects it if the trader has permits with
 * higher nonces: these were accepted without a check that they also cover this order (`judge.ts`).
 */
export function permitNonceFlaw(account: Account, permit: Uint64): Rejection | undefined {
  const { nonce, nonces, permitsEnd, block } = account
  const field = 'permitSignature.nonce'
  const held = permitsEnd - nonce
  if (held >= PERMITS_AHEAD_MAX) {
    const detail =
      `the trader has ${held} open orders with permits, which is the maximum: approve one allowance for all orders ` +
      'instead'
    return reject('INVALID_PERMIT', field, detail)
  }
  if (BigInt(permit) === permitsEnd) {
    const later = [...nonces.keys()].filter((each) => each > permitsEnd).length
    if (later === 0) return undefined
    const detail = `${later} open orders of the trader have permits with a higher nonce: cancel these orders first`
    return reject('INVALID_PERMIT', field, detail)
  }
  const why = held === 0n ? '' : `, and ${held} open orders of the trader use the next nonces`
  const chain = `the trader's next permit nonce at the stablecoin is ${nonce} at block ${block}`
  return reject('INVALID_PERMIT', field, `${field} must be ${permitsEnd}: ${chain}${why}`)
}

function setCounts(account: Account, permit: PermitNeed | undefined, counts: boolean): void {
  if (permit === undefined || permit.counts === counts) return
  permit.counts = counts
  const { open, openMin, pending, promised } = permit.needs
  if (!counts) add(account.unpermitted, permit.needs)
  else {
    add(account.unpermitted, {
      open: -open,
      openMin: -openMin,
      pending: -pending,
      promised: -promised,
    })
  }
}

function add(sums: Sums, more: Partial<Sums>): void {
  sums.open += more.open ?? 0n
  sums.openMin += more.openMin ?? 0n
  sums.pending += more.pending ?? 0n
  sums.promised += more.promised ?? 0n
}
