/**
 * Validates the shape of a submitted order, finds its flaws apart from the signature, and builds the input of
 * the verifier.
 */

import type { MarketId } from '#domain/ids.ts'
import { orderFlaws } from '#domain/order.ts'
import { permitFlaws } from '#domain/order-permit.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { compileValidator } from '#http/validate.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { Clock } from '#runtime/clock.ts'
import { optionsFlaw } from './order-options.ts'
import { OrderSubmission, orderOf, permitOf } from './order-shapes.ts'
import type { SignedOrder } from './order-verifier.ts'

/** Validator of one submission, for callers that validate submissions themselves. */
export const submissionShape = compileValidator(OrderSubmission)

/** Returns a valid body as a normalised submission. */
export function submissionOf(body: unknown): OrderSubmission {
  return (submissionShape.normalise?.(body) ?? body) as OrderSubmission
}

export type SubmissionReader = ReturnType<typeof makeSubmissionReader>

export function makeSubmissionReader(ports: {
  readonly board: MarketBoard
  readonly clock: Clock
  readonly expirationDaysMax: number
  readonly settleSec?: number
}) {
  const { board, clock, expirationDaysMax, settleSec = 0 } = ports

  const nowSec = () => Math.floor(clock.nowMs() / 1_000)

  /** Returns every flaw that can be found without the signature. */
  function flawsOf(submission: OrderSubmission): Rejection[] {
    const flaws = orderFlaws(orderOf(submission), nowSec(), expirationDaysMax)
    const { permitSignature } = submission
    if (permitSignature !== undefined) {
      flaws.push(...permitFlaws(orderOf(submission), permitSignature, settleSec))
      if (permitOf(permitSignature) === undefined) {
        const detail = 'permitSignature.v must be 0, 1, 27 or 28'
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

  return { flawsOf, isOver, signedOf }
}
