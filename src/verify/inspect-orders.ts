/**
 * The work of the verify pool: hash each order of a batch for its chain's settlement contract and
 * recover who signed it. It says what it found and leaves every other rule of an order to others.
 */

import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { Order, PermitSignature, VerifiedOrder } from '#domain/order.ts'
import { makeOrderHasher, type OrderDomain, type OrderHasher } from '#domain/order-hash.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { KeccakEngine } from './keccak.ts'
import { hex, makeRecoverer } from './recover.ts'
import type { RecoveryEngine } from './recovery-engine.ts'
import { normaliseSignature, type SignatureFlaw } from './signature.ts'

/** What crosses to the pool. The permit stays with the caller: nothing here looks at it. */
export type SignedOrder = {
  readonly chainId: number
  readonly order: Order
  /** As the client wrote it. */
  readonly signature: string
}

/** What comes back: little, because the caller still holds the order. */
export type OrderInspection = {
  readonly orderHash: OrderHash
  /** Null when no address can be recovered from the signature. */
  readonly recovered: Address | null
  /** Null when the trader signed the order, else a sentence that says what is wrong. */
  readonly flaw: string | null
}

type OrderInspector = (orders: readonly SignedOrder[]) => (OrderInspection | Rejection)[]

export function makeOrderInspector(
  domains: readonly OrderDomain[],
  recovery: RecoveryEngine,
  keccak: KeccakEngine,
): OrderInspector {
  const hashers = new Map<number, OrderHasher>()
  for (const domain of domains) {
    hashers.set(domain.chainId, makeOrderHasher(domain, keccak.keccak256))
  }
  const recover = makeRecoverer(recovery, keccak)

  function inspect({ chainId, order, signature }: SignedOrder): OrderInspection | Rejection {
    const hashOrder = hashers.get(chainId)
    if (hashOrder === undefined) {
      return reject('INVALID_FIELD', 'chainId', `no settlement contract on chain ${chainId}`)
    }
    const digest = hashOrder(order)
    const orderHash = `0x${hex(digest)}` as OrderHash
    const signer = recover(digest, signature)
    return inspectionOf(orderHash, signer, order.trader)
  }

  return (orders) => orders.map(inspect)
}

/** What is said of an order with this hash that this one signed, as that trader's. */
export function inspectionOf(
  orderHash: OrderHash,
  signer: Address | SignatureFlaw,
  trader: Address,
): OrderInspection {
  if (typeof signer === 'object') {
    const flaw = `invalid signature: ${signer.flaw}; the digest hashed is ${orderHash}`
    return { orderHash, recovered: null, flaw }
  }
  if (signer !== trader) {
    const who = `recovered ${checksumAddress(signer)}, expected ${checksumAddress(trader)}`
    const flaw = `invalid signature: ${who}; the digest hashed is ${orderHash}`
    return { orderHash, recovered: signer, flaw }
  }
  return { orderHash, recovered: signer, flaw: null }
}

/** The order as the rest of the exchange knows it, or why it is not one. */
export function verifiedOrder(
  { order, signature }: SignedOrder,
  inspection: OrderInspection | Rejection,
  permit?: PermitSignature,
): VerifiedOrder | Rejection {
  if (isRejection(inspection)) return inspection
  if (inspection.flaw !== null) return reject('INVALID_SIGNATURE', 'signature', inspection.flaw)
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
