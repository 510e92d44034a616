/**
 * Permits of orders whose trades were refused without a transaction. The stablecoin takes the permits of an
 * owner in the order of their nonces only, so one that was left out holds up all later ones: an owner
 * whose first order met a seller without shares could not pay for his second one. So it is kept, and
 * brought along as soon as a later permit of its owner is.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { SETTLEMENT_PERMITS_MAX } from '#domain/limits.ts'
import type { PermitSignature, VerifiedOrder } from '#domain/order.ts'
import type { PermitsBefore } from './settlement-batch.ts'

/** More than this of one owner are not brought along at once: each costs gas. */
const SPARE_AT_ONCE_MAX = 4

export type SparePermits = {
  readonly before: PermitsBefore
  /** Keeps the permit of an order that is left out, if it has one. */
  keep(order: VerifiedOrder): void
  /** Forgets what was brought along with the permits of these orders, and theirs. */
  used(orders: readonly VerifiedOrder[]): void
}

export function makeSparePermits(): SparePermits {
  const byOwner = new Map<Address, Map<OrderHash, PermitSignature>>()
  let count = 0

  const before: PermitsBefore = (owner, { nonce }) =>
    [...(byOwner.get(owner) ?? [])]
      .filter(([, permit]) => BigInt(permit.nonce) < BigInt(nonce))
      .sort(([, a], [, b]) => Number(BigInt(a.nonce) - BigInt(b.nonce)))
      .slice(0, SPARE_AT_ONCE_MAX)
      .map(([orderHash, permit]) => ({ orderHash, permit }))

  function drop(owner: Address, orderHash: OrderHash): void {
    const spare = byOwner.get(owner)
    if (spare?.delete(orderHash) !== true) return
    count--
    if (spare.size === 0) byOwner.delete(owner)
  }

  return {
    before,
    keep({ trader, orderHash, permit }) {
      if (permit === undefined || byOwner.get(trader)?.has(orderHash) === true) return
      if (count >= SETTLEMENT_PERMITS_MAX) {
        byOwner.clear()
        count = 0
      }
      const spare = byOwner.get(trader) ?? new Map<OrderHash, PermitSignature>()
      byOwner.set(trader, spare.set(orderHash, permit))
      count++
    },
    used(orders) {
      for (const { trader, orderHash, permit } of orders) {
        if (permit === undefined || !byOwner.has(trader)) continue
        for (const earlier of before(trader, permit)) drop(trader, earlier.orderHash)
        drop(trader, orderHash)
      }
    },
  }
}
