/**
 * The work of the verify pool. For each order of a batch, it computes the order hash for the settlement contract of the
 * order's chain. It recovers the signers of the order and of its permit. Other code checks all other rules for orders.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { Order, PermitSignature, VerifiedOrder } from '#domain/order.ts'
import { makeOrderHasher, type OrderHasher } from '#domain/order-hash.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { makePermitInspector, type PermitDomain, type PermitInspector } from './inspect-permit.ts'
import type { KeccakEngine } from './keccak.ts'
import { hex, makeRecoverer } from './recover.ts'
import type { RecoveryEngine } from './recovery-engine.ts'
import { normaliseSignature, type SignatureFlaw } from './signature.ts'

/** A signed order whose signature must be verified. */
export type SignedOrder = {
  readonly chainId: number
  readonly order: Order
  /** Signature as the client sent it. */
  readonly signature: string
  readonly permit?: PermitSignature
}

/** Result of the check of one order. The result does not contain the order, because the caller has it already. */
export type OrderInspection = {
  readonly orderHash: OrderHash
  /** Address recovered from the signature; null if no address can be recovered. */
  readonly recovered: Address | null
  /** Sentence about the error in the signature; null if the trader signed the order. */
  readonly flaw: string | null
  /** True if the signature is well-formed but no key matches it. A contract account may accept such a signature. */
  readonly keyless?: boolean
  /** Error in the permit's signature; absent if that signature is valid or the order has no permit. */
  readonly permitFlaw?: string
}

type OrderInspector = (orders: readonly SignedOrder[]) => (OrderInspection | Rejection)[]

export function makeOrderInspector(
  domains: readonly PermitDomain[],
  recovery: RecoveryEngine,
  keccak: KeccakEngine,
): OrderInspector {
  const chains = new Map<number, { hashOrder: OrderHasher; inspectPermit: PermitInspector }>()
  for (const domain of domains) {
    chains.set(domain.chainId, {
      hashOrder: makeOrderHasher(domain, keccak.keccak256),
      inspectPermit: makePermitInspector(domain, recovery, keccak),
    })
  }
  const recover = makeRecoverer(recovery, keccak)

  function inspect(signed: SignedOrder): OrderInspection | Rejection {
    const { chainId, order, signature, permit } = signed
    const chain = chains.get(chainId)
    if (chain === undefined) {
      return reject(
        'INVALID_FIELD',
        'chainId',
        `this exchange has no settlement contract on chain ${chainId}`,
      )
    }
    const digest = chain.hashOrder(order)
    const orderHash = `0x${hex(digest)}` as OrderHash
    const inspection = inspectionOf(orderHash, recover(digest, signature), order.trader)
    const permitFlaw = permit === undefined ? null : chain.inspectPermit(order.trader, permit)
    return permitFlaw === null ? inspection : { ...inspection, permitFlaw }
  }

  return (orders) => orders.map(inspect)
}

/** Returns the inspection of an order from its hash, its recovered signer and its trader. */
export function inspectionOf(
  orderHash: OrderHash,
  signer: Address | SignatureFlaw,
  trader: Address,
): OrderInspection {
  if (typeof signer === 'object') {
    const flaw = `invalid signature: ${signer.flaw}; the server computed the digest ${orderHash}`
    return {
      orderHash,
      recovered: null,
      flaw,
      ...(signer.keyless === true ? { keyless: true } : {}),
    }
  }
  if (signer !== trader) {
    const who = `the recovered signer is ${checksumAddress(signer)}, not ${checksumAddress(trader)}`
    const flaw = `invalid signature: ${who}; the server computed the digest ${orderHash}`
    return { orderHash, recovered: signer, flaw }
  }
  return { orderHash, recovered: signer, flaw: null }
}

/** Returns the verified order, or the reason for its rejection. */
export function verifiedOrder(
  { order, signature, permit }: SignedOrder,
  inspection: OrderInspection | Rejection,
): VerifiedOrder | Rejection {
  if (isRejection(inspection)) return inspection
  const { flaw, permitFlaw } = inspection
  if (flaw !== null) return reject('INVALID_SIGNATURE', 'signature', flaw)
  if (permitFlaw !== undefined) return reject('INVALID_PERMIT', 'permitSignature', permitFlaw)
  return {
    marketId: order.marketId,
    trader: order.trader,
    side: order.side,
    outcome: order.outcome,
    price: order.price,
    size: order.size,
    nonce: order.nonce,
    expiration: order.expiration,
    makerFeeRecipient: order.makerFeeRecipient,
    orderHash: inspection.orderHash,
    signature: normaliseSignature(signature),
    ...(permit === undefined ? {} : { permit }),
  }
}
