/**
 * Checks signatures that were not made with the trader's own key. Such a signature is accepted in two cases. Either a
 * delegate of the trader made it, and the order is within the limits of the delegation. Or the code of the trader's
 * contract account accepts it (EIP-1271).
 */

import { type Delegation, delegationFlaw } from '#domain/delegate.ts'
import type { OrderHash } from '#domain/ids.ts'
import { DELEGATED_ORDERS_MAX, DELEGATED_READ_MAX } from '#domain/limits.ts'
import type { Order } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Asker } from '#http/limits.ts'
import type { ContractSignatures } from '#live/contract-signatures.ts'
import type { Delegates } from '#live/delegates.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Inspection, SignedOrder } from './order-verifier.ts'

/** An order signed by a delegate, as the store records it before the order is sent to the market. */
type DelegatedOrder = Pick<Order, 'trader' | 'price' | 'size'> & {
  readonly orderHash: OrderHash
  readonly chainId: number
  readonly delegate: Delegation['delegate']
  readonly expiresAtSec: number
  readonly maxOpenNotional: number
  readonly nowMs: number
}

type Recorded =
  | { readonly reserved: true }
  | {
      readonly reserved: false
      readonly openNotional: bigint
      readonly openOrders: number
      readonly isCrowded?: true
    }
  | Rejection

/** Stores and deletes orders of delegates; throws a `Fault` if the store does not answer. */
type DelegatedOrders = {
  reserve(order: DelegatedOrder): Promise<Recorded>
  /** Returns whether `reserve` would accept the order, without recording the order. */
  check(order: DelegatedOrder): Promise<Recorded>
  release(orderHash: OrderHash): void
}

/**
 * The signer of an order: the trader's key, a delegate that the trader appointed, or the code of the trader's contract
 * account.
 */
export type OrderSigner =
  | { readonly kind: 'owner' | 'contract' }
  | { readonly kind: 'delegate'; readonly delegation: Delegation; readonly chainId: number }

export type OrderSigners = {
  /** Returns the signer of an order. Returns a rejection if the signature is not accepted or cannot be checked. */
  signerOf(
    signed: SignedOrder,
    inspection: Inspection,
    asker: Asker,
  ): Promise<OrderSigner | Rejection>
  /**
   * Returns a rejection if the limits of a delegate do not allow the order. Otherwise stores the delegate's order,
   * unless `dryRun` is true.
   */
  limitFlaw(
    signer: OrderSigner,
    order: Order & { readonly orderHash: OrderHash },
    options?: { readonly dryRun?: boolean },
  ): Promise<Rejection | undefined>
  /** Deletes the record of an order that its market refused. */
  release(signer: OrderSigner, orderHash: OrderHash): void
}

type OrderSignersPorts = {
  readonly delegates: Pick<Delegates, 'of'>
  readonly contracts: Pick<ContractSignatures, 'accepts'>
  readonly delegated: DelegatedOrders
  readonly clock: Pick<Clock, 'nowMs'>
}

const OWNER: OrderSigner = { kind: 'owner' }
const CONTRACT: OrderSigner = { kind: 'contract' }

export function makeOrderSigners(ports: OrderSignersPorts): OrderSigners {
  const { delegates, contracts, delegated, clock } = ports

  return {
    async signerOf({ chainId, order, signature }, inspection, asker) {
      const { orderHash, recovered, flaw, keyless } = inspection
      if (flaw === null) return OWNER
      if (recovered !== null) {
        const found = await delegates.of(chainId, order.trader)
        if (isRejection(found)) return found
        const delegation = found.find(({ delegate }) => delegate === recovered)
        if (delegation !== undefined) return { kind: 'delegate', delegation, chainId }
      }
      if (recovered !== null || keyless === true) {
        const question = { chainId, account: order.trader, digest: orderHash, signature }
        const accepted = await contracts.accepts(question, asker)
        if (accepted === true) return CONTRACT
        if (accepted !== false) return accepted
      }
      return reject('INVALID_SIGNATURE', 'signature', flaw)
    },

    async limitFlaw(signer, order, { dryRun = false } = {}) {
      if (signer.kind !== 'delegate') return undefined
      const { delegation, chainId } = signer
      const nowMs = clock.nowMs()
      const flaw = delegationFlaw(delegation, order, Math.floor(nowMs / 1_000))
      if (flaw !== undefined) return flaw
      const { delegate, maxOpenNotional } = delegation
      const answer = await delegated[dryRun ? 'check' : 'reserve']({
        ...{ orderHash: order.orderHash, trader: order.trader, price: order.price },
        ...{ size: order.size, chainId, delegate, maxOpenNotional, nowMs },
        expiresAtSec: Number(order.expiration),
      })
      if (isRejection(answer)) return answer
      if (answer.reserved) return undefined
      const detail = answer.isCrowded
        ? `the delegate has ${DELEGATED_READ_MAX} or more orders that are open or were filled within two hours: retry ` +
          'later'
        : answer.openOrders >= DELEGATED_ORDERS_MAX
          ? `the delegate has ${answer.openOrders} open orders, and the maximum is ${DELEGATED_ORDERS_MAX}: cancel some ` +
            'of them'
          : `open orders of the delegate are worth ${answer.openNotional}; with this order the ` +
            `delegate would exceed its limit of ${maxOpenNotional} millionths of the stablecoin`
      return reject('DELEGATE_LIMIT', 'order.size', detail)
    },

    release(signer, orderHash) {
      if (signer.kind === 'delegate') delegated.release(orderHash)
    },
  }
}
