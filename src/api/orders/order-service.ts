/**
 * What happens to a submitted order before its market sees it: its values, its market, its permit,
 * its signature. The same for one order, a batch and a check without placing.
 */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { isPrice, isShares } from '#domain/money.ts'
import {
  notionalFlaw,
  type Order,
  orderFlaws,
  type PermitSignature,
  type VerifiedOrder,
} from '#domain/order.ts'
import { permitFlaws } from '#domain/order-permit.ts'
import { isRejection, type Rejection, type RejectionCode, reject } from '#domain/rejection.ts'
import type { Asker, UnfundedLimit } from '#http/limits.ts'
import type { RequestContext } from '#http/request-context.ts'
import { compileValidator } from '#http/validate.ts'
import type { FundsGateway } from '#live/funds-gateway.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway, OrderContext } from '#live/market-gateway.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import type { WithdrawnOrders } from '#live/withdrawn-orders.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import type { Clock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import { OrderSubmission, orderOf, permitOf } from './order-shapes.ts'
import { optionsFlaw, timeInForceFlawNow, timeInForceOf } from './time-in-force.ts'

/** What one submission must look like, for those who check it themselves. */
export const submissionShape = compileValidator(OrderSubmission)

/** Brings a body that fits into canonical form. */
export function submissionOf(body: unknown): OrderSubmission {
  return (submissionShape.normalise?.(body) ?? body) as OrderSubmission
}

type SignedOrder = {
  readonly chainId: number
  readonly order: Order
  readonly signature: string
  readonly permit?: PermitSignature
}

/** The result of the verify pool: the digest, its signer, and flaws of the signature and the permit. */
type Inspection = {
  readonly orderHash: OrderHash
  readonly recovered: Address | null
  readonly flaw: string | null
  readonly permitFlaw?: string
}

/** The verify pool, as composition hands it in. */
export type OrderVerifier = {
  inspect(signed: SignedOrder): Promise<Inspection | Rejection>
  verified(signed: SignedOrder, inspection: Inspection): VerifiedOrder | Rejection
}

type OrderCheck = {
  readonly valid: boolean
  readonly orderHash: OrderHash | null
  readonly recovered: Address | null
  readonly errors: readonly Rejection[]
}

export type OrderService = {
  /** Verifies an order and enters it. */
  place(submission: OrderSubmission, context: OrderContext): Promise<OrderAccepted | Rejection>
  verify(
    submission: OrderSubmission,
    context: Pick<RequestContext, 'stages' | 'deadlineAtMs'> & Asker,
  ): Promise<VerifiedOrder | Rejection>
  /** Hands a verified order to its market; orders arrive there as they were handed over. */
  enter(order: VerifiedOrder, context: OrderContext): Promise<OrderAccepted | Rejection>
  /** Every failure of anything that claims to be a submission; places nothing. */
  check(submission: unknown, context: RequestContext & Asker): Promise<OrderCheck | Rejection>
}

export function makeOrderService(ports: {
  readonly board: MarketBoard
  readonly gateway: Pick<MarketGateway, 'place' | 'recall' | 'standing'>
  /** There where an order needs its funds reserved. */
  readonly funds?: FundsGateway | undefined
  readonly verifier: OrderVerifier
  /** Present if withdrawals of orders on chain are indexed. */
  readonly withdrawn?: Pick<WithdrawnOrders, 'flawOf'> | undefined
  /** Resolves when the markets of this one's thread are on the board for the first time; undefined once they were. */
  readonly known?: (marketId: MarketId) => Promise<void> | undefined
  /** Undefined where these markets are followed; else what came of waiting for it. */
  readonly followed?: SeqWaiters['untilFollowed']
  readonly clock: Clock
  /** The least that price times size of an order may be; its market asks for it, and a check tells it. */
  readonly minNotional?: number
  /** How far ahead an order may end. */
  readonly expirationDaysMax: number
  /** How long after its match a trade may settle; a permit must be valid until then. */
  readonly settleSec?: number
  /** Told how long each verification took. */
  readonly meter?: StageMeter
  /** Counts orders that their traders cannot pay for, or that come while they pause because they could not. */
  readonly unfunded?: UnfundedLimit
}): OrderService {
  const { board, gateway, funds, verifier, clock, meter } = ports
  const { expirationDaysMax, minNotional = 0, settleSec = 0 } = ports

  const nowSec = () => Math.floor(clock.nowMs() / 1_000)

  /** Everything that can be said without a signature. */
  function flawsOf(submission: OrderSubmission): Rejection[] {
    const flaws = orderFlaws(orderOf(submission), nowSec(), expirationDaysMax)
    const { permitSignature } = submission
    if (permitSignature !== undefined) {
      flaws.push(...permitFlaws(orderOf(submission), permitSignature, settleSec))
      if (permitOf(permitSignature) === undefined) {
        const detail = 'permitSignature.v must be 27 or 28, or 0 or 1'
        flaws.push(reject('INVALID_FIELD', 'permitSignature.v', detail))
      }
    }
    const contrary = optionsFlaw(submission)
    if (contrary !== undefined) flaws.push(contrary)
    if (!board.markets.has(orderOf(submission).marketId)) {
      flaws.push(missing(orderOf(submission).marketId))
    }
    return flaws
  }

  function missing(marketId: MarketId): Rejection {
    if (board.isGone(marketId)) return reject('MARKET_CLOSED', 'order.marketId')
    return board.isCurrent() ? reject('MARKET_NOT_FOUND', 'order.marketId') : reject('OVERLOADED')
  }

  function isOver(marketId: MarketId): boolean {
    const shown = board.markets.get(marketId)
    if (shown === undefined) return board.isGone(marketId)
    return shown.closed !== undefined || shown.market.expiration <= nowSec()
  }

  function signedOf(submission: OrderSubmission): SignedOrder | undefined {
    const order = orderOf(submission)
    const chainId = board.markets.get(order.marketId)?.market.chainId
    if (chainId === undefined) return undefined
    const { signature, permitSignature } = submission
    const permit = permitSignature === undefined ? undefined : permitOf(permitSignature)
    return { chainId, order, signature, ...(permit === undefined ? {} : { permit }) }
  }

  function countUnfunded({ ip, principal }: Asker): void {
    if (ip !== undefined) ports.unfunded?.count(ip, principal)
  }

  /** Who has sent too many such orders waits before anything is spent on the next. */
  function tooManyUnfunded({ ip, principal }: Asker): Rejection | undefined {
    if (ip === undefined || ports.unfunded === undefined) return undefined
    const retryAfterSec = ports.unfunded.waitSec(ip, principal)
    if (retryAfterSec === 0) return undefined
    const detail = `too many orders that their traders could not pay for: wait ${retryAfterSec} s`
    return { ...reject('RATE_LIMITED', undefined, detail), retryAfterSec }
  }

  /** Places an order once its funds are reserved; ends the reservation when it was not placed. */
  async function placeCovered(
    order: VerifiedOrder,
    context: OrderContext,
    accounts: FundsGateway,
  ): Promise<OrderAccepted | Rejection> {
    const chainId = board.markets.get(order.marketId)?.market.chainId
    if (chainId === undefined) return gateway.place(order, context)
    const refused = await accounts.reserve(order, chainId, context)
    if (refused !== undefined) {
      // An order that was accepted before is answered as it was then, whatever has become of its funds.
      const before = await gateway.recall(order, context)
      if (before === undefined || isRejection(before)) return refused
      const { left: _, ...accepted } = before
      return accepted
    }
    const answer = await gateway.place(order, context)
    const isNew = !isRejection(answer) && answer.duplicate !== true
    const isUnknown = isRejection(answer) && UNKNOWN.has(answer.rejected)
    if (!isNew && !isUnknown) accounts.release(order)
    return answer
  }

  const service: OrderService = {
    async place(submission, context) {
      const verified = await service.verify(submission, context)
      if (isRejection(verified)) return verified
      const timeInForce = timeInForceOf(submission)
      return service.enter(
        verified,
        timeInForce === undefined ? context : within(context, timeInForce),
      )
    },

    async verify(submission, { stages, deadlineAtMs, ip, principal }) {
      const tooMany = tooManyUnfunded({ ip, principal })
      if (tooMany !== undefined) return tooMany
      const { marketId } = orderOf(submission)
      // A front that has just started is told of the markets in a moment.
      const known = board.markets.has(marketId) ? undefined : ports.known?.(marketId)
      if (known !== undefined) await inTime(known, deadlineAtMs - clock.nowMs())
      // Time is the market's to judge: an order that it has accepted before is answered as it was
      // then, also when its end is near by now.
      const flaw = flawsOf(submission).find(({ rejected }) => rejected !== 'EXPIRATION_TOO_SOON')
      if (flaw !== undefined) return flaw
      const signed = signedOf(submission)
      if (signed === undefined) return reject('MARKET_NOT_FOUND', 'order.marketId')
      const begunMs = performance.now()
      const inspection = await verifier.inspect(signed)
      const tookMs = performance.now() - begunMs
      meter?.record('verify', tookMs)
      if (stages !== undefined) stages.verify = tookMs
      if (isRejection(inspection)) return inspection
      const order = verifier.verified(signed, inspection)
      if (isRejection(order)) return order
      const voided = await ports.withdrawn?.flawOf(order, signed.chainId)
      if (voided === undefined) return order
      // If the order was accepted before, its market repeats that answer.
      const before = await gateway.recall(order, { deadlineAtMs })
      return before === undefined || isRejection(before) ? voided : order
    },

    async enter(order, context) {
      const answer = await (funds === undefined
        ? gateway.place(order, context)
        : placeCovered(order, context, funds))
      if (isRejection(answer) && UNFUNDED.has(answer.rejected)) countUnfunded(context)
      // A market that is over may be gone from its thread; the fronts still know it.
      const isGone = isRejection(answer) && answer.rejected === 'MARKET_NOT_FOUND'
      return isGone && isOver(order.marketId) ? reject('MARKET_CLOSED') : answer
    },

    async check(body, context) {
      const tooMany = tooManyUnfunded(context)
      if (tooMany !== undefined) return tooMany
      const misfits = submissionShape.flaws(body)
      if (misfits.length > 0) return invalid(misfits)
      const submission = submissionOf(body)
      const errors = flawsOf(submission)
      const passing = errors.find(isPassing)
      if (passing !== undefined) return passing
      if (isOver(orderOf(submission).marketId)) {
        errors.push(reject('MARKET_CLOSED', 'order.marketId'))
      }
      const order = orderOf(submission)
      if (isPrice(order.price) && isShares(order.size)) {
        const small = notionalFlaw(order, minNotional)
        if (small !== undefined) errors.push(small)
      }
      const shown = board.markets.get(order.marketId)
      if (shown !== undefined && !isOver(order.marketId)) {
        const timeInForce = timeInForceOf(submission)
        const late =
          timeInForce === undefined ? undefined : await ports.followed?.([order.marketId], context)
        if (late !== undefined) return late
        const misfit =
          timeInForce === undefined ? undefined : timeInForceFlawNow(shown, order, timeInForce)
        if (misfit !== undefined) errors.push(misfit)
        const refused = await gateway.standing(order.marketId, order.trader, context)
        if (refused !== undefined && isPassing(refused)) return refused
        if (refused !== undefined) errors.push(refused)
      }
      const signed = signedOf(submission)
      if (signed === undefined || !isHashable(signed.order)) return invalid(errors)
      const inspection = await verifier.inspect(signed)
      if (isRejection(inspection)) {
        // Too busy to tell is no fault of the order's.
        return isPassing(inspection) ? inspection : invalid([...errors, inspection])
      }
      const { orderHash, recovered, flaw, permitFlaw } = inspection
      if (flaw !== null) errors.push(reject('INVALID_SIGNATURE', 'signature', flaw))
      if (permitFlaw !== undefined) {
        errors.push(reject('INVALID_PERMIT', 'permitSignature', permitFlaw))
      }
      const voided = await ports.withdrawn?.flawOf({ ...order, orderHash }, signed.chainId)
      if (voided !== undefined && isPassing(voided)) return voided
      if (voided !== undefined) errors.push(voided)
      if (errors.length === 0 && funds !== undefined) {
        const permit = signed.permit?.nonce
        const order = { ...signed.order, orderHash, permit }
        const short = await funds.check(order, signed.chainId, context)
        if (short !== undefined && isPassing(short)) return short
        if (short !== undefined) errors.push(short)
      }
      if (errors.some(({ rejected }) => UNFUNDED.has(rejected))) countUnfunded(context)
      return { valid: errors.length === 0, orderHash, recovered, errors }
    },
  }
  return service
}

/** Returns the same request with the time in force of one of its orders. */
export function within(
  context: OrderContext,
  timeInForce: OrderContext['timeInForce'],
): OrderContext {
  const { deadlineAtMs, requestId, stages, session, ip, principal } = context
  return {
    ...{ deadlineAtMs, timeInForce, ip, principal },
    ...(requestId === undefined ? {} : { requestId }),
    ...(stages === undefined ? {} : { stages }),
    ...(session === undefined ? {} : { session }),
  }
}

/** After these it is not known whether the order was placed. */
const UNKNOWN: ReadonlySet<RejectionCode> = new Set(['OUTCOME_UNKNOWN', 'INTERNAL'])

/** Refusals because of the trader: missing funds, a pause after a failed trade, or a used-up gas budget. */
const UNFUNDED: ReadonlySet<RejectionCode> = new Set([
  'INSUFFICIENT_FUNDS',
  'INSUFFICIENT_ALLOWANCE',
  'TRADER_PAUSED',
  'GAS_BUDGET_SPENT',
])

/** Says nothing about the order, only that it cannot be told at present. */
const PASSING: ReadonlySet<RejectionCode> = new Set(['OVERLOADED', 'INTERNAL', 'CHAIN_UNAVAILABLE'])

function isPassing({ rejected }: Rejection): boolean {
  return PASSING.has(rejected)
}

function invalid(errors: readonly Rejection[]): OrderCheck {
  return { valid: false, orderHash: null, recovered: null, errors }
}

/** A digest is made of unsigned integers; a wallet cannot have signed anything else. */
function isHashable({ price, size }: Order): boolean {
  return price >= 0 && size >= 0
}
