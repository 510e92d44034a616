/** Checks a submission without placing it: returns every error that placing it would cause. */

import type { Address, OrderHash } from '#domain/ids.ts'
import { isPrice, isShares } from '#domain/money.ts'
import { notionalFlaw, type Order } from '#domain/order.ts'
import { isRejection, type Rejection, type RejectionCode, reject } from '#domain/rejection.ts'
import type { Asker } from '#http/limits.ts'
import type { RequestContext } from '#http/request-context.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import type { WithdrawnOrders } from '#live/withdrawn-orders.ts'
import type { Clock } from '#runtime/clock.ts'
import { type OrderSubmission, orderOf } from './order-shapes.ts'
import type { OrderSigner, OrderSigners } from './order-signers.ts'
import type { Inspection, OrderVerifier, SignedOrder } from './order-verifier.ts'
import { type SubmissionReader, submissionOf, submissionShape } from './submission-reader.ts'
import { timeInForceFlawNow, timeInForceOf } from './time-in-force.ts'
import { isUnfunded, type UnfundedGuard } from './unfunded-guard.ts'

export type OrderCheck = {
  readonly valid: boolean
  readonly orderHash: OrderHash | null
  readonly recovered: Address | null
  /** Kind of the order's signer; null if the signature is not accepted. */
  readonly signer: OrderSigner['kind'] | null
  readonly errors: readonly Rejection[]
}

/** Documented in `OrderServicePorts`. */
type CheckPorts = {
  readonly board: MarketBoard
  readonly gateway: Pick<MarketGateway, 'standing'>
  readonly funds?: FundsGateway | undefined
  readonly verifier: OrderVerifier
  readonly signers?: OrderSigners | undefined
  readonly withdrawn?: Pick<WithdrawnOrders, 'flawOf'> | undefined
  readonly followed?: SeqWaiters['untilFollowed']
  readonly clock: Pick<Clock, 'nowMs'>
  readonly minNotional?: number
}

type CheckContext = RequestContext & Asker

export function makeOrderCheck(
  ports: CheckPorts,
  { flawsOf, isOver, signedOf }: SubmissionReader,
  unfunded: UnfundedGuard,
) {
  const { board, gateway, funds, verifier, clock, minNotional = 0 } = ports

  /**
   * Adds the errors that concern the market to `errors`. Returns a transient error instead of adding it, because a
   * retry may give another result.
   */
  async function checkMarket(
    submission: OrderSubmission,
    context: CheckContext,
    errors: Rejection[],
  ): Promise<Rejection | undefined> {
    const order = orderOf(submission)
    const { marketId, trader } = order
    if (isOver(marketId)) errors.push(reject('MARKET_CLOSED', 'order.marketId'))
    const { bookByMs } = submission
    if (bookByMs !== undefined && clock.nowMs() > bookByMs) {
      errors.push(reject('TOO_LATE', 'bookByMs'))
    }
    if (isPrice(order.price) && isShares(order.size)) {
      const small = notionalFlaw(order, minNotional)
      if (small !== undefined) errors.push(small)
    }
    const shown = board.markets.get(marketId)
    if (shown === undefined || isOver(marketId)) return undefined
    const timeInForce = timeInForceOf(submission)
    if (timeInForce !== undefined) {
      const late = await ports.followed?.([marketId], context)
      if (late !== undefined) return late
      const misfit = timeInForceFlawNow(shown, order, timeInForce)
      if (misfit !== undefined) errors.push(misfit)
    }
    return add(errors, await gateway.standing(marketId, trader, context))
  }

  /**
   * Adds the errors that concern the chain and the funds to `errors`. Returns a transient error instead of adding it,
   * because a retry may give another result.
   */
  async function checkFunds(
    { order, chainId, permit }: SignedOrder,
    orderHash: OrderHash,
    context: CheckContext,
    errors: Rejection[],
  ): Promise<Rejection | undefined> {
    const hashed = { ...order, orderHash, ...(permit === undefined ? {} : { permit }) }
    const voided = add(errors, await ports.withdrawn?.flawOf(hashed, chainId))
    if (voided !== undefined) return voided
    if (errors.length > 0 || funds === undefined) return undefined
    return add(errors, await funds.check(hashed, chainId, context))
  }

  async function signerOf(
    signed: SignedOrder,
    inspection: Inspection,
    { ip, principal }: CheckContext,
  ): Promise<OrderSigner | Rejection> {
    const { flaw } = inspection
    if (flaw === null) return { kind: 'owner' }
    if (ports.signers === undefined) return reject('INVALID_SIGNATURE', 'signature', flaw)
    return ports.signers.signerOf(signed, inspection, { ip, principal })
  }

  return async (body: unknown, context: CheckContext): Promise<OrderCheck | Rejection> => {
    const tooMany = unfunded.flawOf(context)
    if (tooMany !== undefined) return tooMany
    const misfits = submissionShape.flaws(body)
    if (misfits.length > 0) return invalid(misfits)
    const submission = submissionOf(body)
    const errors = flawsOf(submission)
    const passing = errors.find(isPassing) ?? (await checkMarket(submission, context, errors))
    if (passing !== undefined) return passing
    const signed = signedOf(submission)
    if (signed === undefined || !isHashable(signed.order)) return invalid(errors)
    const inspection = await verifier.inspect(signed)
    if (isRejection(inspection)) {
      // If this rejection is transient, the verifier could not check the signature. Then return only this rejection,
      // because the list of errors would be incomplete.
      return isPassing(inspection) ? inspection : invalid([...errors, inspection])
    }
    const { orderHash, recovered, permitFlaw } = inspection
    const signer = await signerOf(signed, inspection, context)
    if (isRejection(signer)) {
      if (isPassing(signer)) return signer
      errors.push(signer)
    } else {
      const hashed = { ...signed.order, orderHash }
      const late = add(errors, await ports.signers?.limitFlaw(signer, hashed, { dryRun: true }))
      if (late !== undefined) return late
    }
    if (permitFlaw !== undefined) {
      errors.push(reject('INVALID_PERMIT', 'permitSignature', permitFlaw))
    }
    const failure = await checkFunds(signed, orderHash, context, errors)
    if (failure !== undefined) return failure
    const lacking = errors.find(isUnfunded)
    if (lacking !== undefined) unfunded.count(lacking, context)
    const kind = isRejection(signer) ? null : signer.kind
    return { valid: errors.length === 0, orderHash, recovered, signer: kind, errors }
  }
}

/**
 * Adds a rejection to the errors of the order. If the rejection is transient (`PASSING`), returns it instead, because
 * the order itself may be correct.
 */
function add(errors: Rejection[], flaw: Rejection | undefined): Rejection | undefined {
  if (flaw === undefined) return undefined
  if (isPassing(flaw)) return flaw
  errors.push(flaw)
  return undefined
}

/** Rejections that are transient: the check could not be made, and a retry may succeed. */
const PASSING: ReadonlySet<RejectionCode> = new Set([
  'OVERLOADED',
  'INTERNAL',
  'CHAIN_UNAVAILABLE',
  'RATE_LIMITED',
])

function isPassing({ rejected }: Rejection): boolean {
  return PASSING.has(rejected)
}

function invalid(errors: readonly Rejection[]): OrderCheck {
  return { valid: false, orderHash: null, recovered: null, signer: null, errors }
}

/**
 * Returns whether the order can be hashed. The hash takes `price` and `size` as unsigned integers, so no wallet can
 * have signed a negative value.
 */
function isHashable({ price, size }: Order): boolean {
  return price >= 0 && size >= 0
}
