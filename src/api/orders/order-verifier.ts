/** Interface of the verify pool for the order service. */

import type { Address, OrderHash } from '#domain/ids.ts'
import type { Order, PermitSignature, VerifiedOrder } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'

export type SignedOrder = {
  readonly chainId: number
  readonly order: Order
  readonly signature: string
  readonly permit?: PermitSignature
}

/** The result of the verify pool: the digest, its signer, and flaws of the signature and the permit. */
export type Inspection = {
  readonly orderHash: OrderHash
  readonly recovered: Address | null
  readonly flaw: string | null
  /**
   * True if the signature has the right form, but no key can have made it. Then only the code of a contract account can
   * accept it.
   */
  readonly keyless?: boolean
  readonly permitFlaw?: string
}

/** The verify pool; passed in when the service is built. */
export type OrderVerifier = {
  inspect(signed: SignedOrder): Promise<Inspection | Rejection>
  verified(signed: SignedOrder, inspection: Inspection): VerifiedOrder | Rejection
}
