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
import type { SettlementPermit } from './settlement-contract.ts'

export type SparePermits = {
  readonly before: PermitsBefore
  /** Keeps the permit of an order that is left out, if it has one. */
  keep(order: VerifiedOrder): void
  /** Forgets permits that were brought along. */
  used(permits: readonly SettlementPermit[]): void
}

export function makeSparePermits(): SparePermits {
  const byOwner = new Map<Address, Map<OrderHash, PermitSignature>>()
  let count = 0

  const before: PermitsBefore = (owner, { nonce }) =>
    [...(byOwner.get(owner) ?? [])]
      .filter(([, permit]) => BigInt(permit.nonce) < BigInt(nonce))
      .sort(([, a], [, b]) => Number(BigInt(a.nonce) - BigInt(b.nonce)))
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
    used(permits) {
      for (const { owner, permit } of permits) {
        for (const [orderHash, { nonce }] of byOwner.get(owner) ?? []) {
          if (nonce === permit.nonce) drop(owner, orderHash)
        }
      }
    },
  }
}
