/**
 * What happens to a submitted order before its market sees it: its values, its market, its permit,
 * its signature. The same for one order, a batch and a check without placing.
 */

import type { OrderAccepted } from '#actors/market.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import { type Order, orderFlaws, type PermitSignature, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketBoard } from './market-board.ts'
import type { MarketGateway } from './market-gateway.ts'
import { type OrderSubmission, orderOf, permitOf } from './order-shapes.ts'

export type SignedOrder = {
  readonly chainId: number
  readonly order: Order
  readonly signature: string
}

/** What the verify pool finds: the digest, who signed it, and what is wrong with that. */
export type Inspection = {
  readonly orderHash: OrderHash
  readonly recovered: Address | null
  readonly flaw: string | null
}

/** The verify pool, as composition hands it in. */
export type OrderVerifier = {
  inspect(signed: SignedOrder): Promise<Inspection | Rejection>
  verified(
    signed: SignedOrder,
    inspection: Inspection,
    permit: PermitSignature | undefined,
  ): VerifiedOrder | Rejection
}

export type OrderCheck = {
  readonly valid: boolean
  readonly orderHash: OrderHash | null
  readonly recovered: Address | null
  readonly errors: readonly Rejection[]
}

export type OrderDesk = {
  place(submission: OrderSubmission, deadlineAtMs: number): Promise<OrderAccepted | Rejection>
  /** Every failure at once; places nothing. */
  check(submission: OrderSubmission): Promise<OrderCheck>
}

export function makeOrderDesk(parts: {
  readonly board: MarketBoard
  readonly gateway: MarketGateway
  readonly verifier: OrderVerifier
  readonly clock: Clock
  /** Whether the board has every market; before that nobody can say that one does not exist. */
  readonly isLoaded: () => boolean
}): OrderDesk {
  const { board, gateway, verifier, clock, isLoaded } = parts

  /** Everything that can be said without a signature. */
  function flawsOf(submission: OrderSubmission): Rejection[] {
    const flaws = orderFlaws(orderOf(submission), Math.floor(clock.nowMs() / 1_000))
    const { permitSignature } = submission
    if (permitSignature !== undefined && permitOf(permitSignature) === undefined) {
      const detail = 'permitSignature.v must be 27 or 28, or 0 or 1'
      flaws.push(reject('INVALID_FIELD', 'permitSignature.v', detail))
    }
    if (!board.markets.has(orderOf(submission).marketId)) {
      flaws.push(isLoaded() ? reject('MARKET_NOT_FOUND', 'order.marketId') : reject('OVERLOADED'))
    }
    return flaws
  }

  function signedOf(submission: OrderSubmission): SignedOrder | undefined {
    const order = orderOf(submission)
    const chainId = board.markets.get(order.marketId)?.market.chainId
    return chainId === undefined ? undefined : { chainId, order, signature: submission.signature }
  }

  return {
    async place(submission, deadlineAtMs) {
      const [flaw] = flawsOf(submission)
      if (flaw !== undefined) return flaw
      const signed = signedOf(submission)
      if (signed === undefined) return reject('MARKET_NOT_FOUND', 'order.marketId')
      const inspection = await verifier.inspect(signed)
      if (isRejection(inspection)) return inspection
      const { permitSignature } = submission
      const permit = permitSignature === undefined ? undefined : permitOf(permitSignature)
      const verified = verifier.verified(signed, inspection, permit)
      if (isRejection(verified)) return verified
      return gateway.place(verified, Math.max(1, deadlineAtMs - clock.nowMs()))
    },

    async check(submission) {
      const errors = flawsOf(submission)
      const shown = board.markets.get(orderOf(submission).marketId)
      if (shown?.closed !== undefined) errors.push(reject('MARKET_CLOSED', 'order.marketId'))
      const signed = signedOf(submission)
      if (signed === undefined) return { valid: false, orderHash: null, recovered: null, errors }
      const inspection = await verifier.inspect(signed)
      if (isRejection(inspection)) {
        return { valid: false, orderHash: null, recovered: null, errors: [...errors, inspection] }
      }
      const { orderHash, recovered, flaw } = inspection
      if (flaw !== null) errors.push(reject('INVALID_SIGNATURE', 'signature', flaw))
      return { valid: errors.length === 0, orderHash, recovered, errors }
    },
  }
}
