/**
 * Refuses orders of clients that have sent too many unfunded orders. An order is unfunded if it is rejected for missing
 * funds, a pause after a failed trade, a used-up gas budget, or the limits of a delegate. These checks are expensive:
 * for the limits of a delegate, the database adds up the delegate's open orders.
 */

import { isRejection, type Rejection, type RejectionCode, reject } from '#domain/rejection.ts'
import type { Asker, UnfundedLimit } from '#http/limits.ts'

/** Codes of the rejections that count as unfunded. The trader or their delegate caused them. */
const UNFUNDED: ReadonlySet<RejectionCode> = new Set([
  'INSUFFICIENT_FUNDS',
  'INSUFFICIENT_ALLOWANCE',
  'TRADER_PAUSED',
  'GAS_BUDGET_SPENT',
  'DELEGATE_LIMIT',
])

export function isUnfunded({ rejected }: Rejection): boolean {
  return UNFUNDED.has(rejected)
}

export type UnfundedGuard = {
  /** Counts the answer if it rejects an order as unfunded. */
  count(answer: object, asker: Asker): void
  /** Rejects an order before any other work if its client has sent too many unfunded orders. */
  flawOf(asker: Asker): Rejection | undefined
}

export function makeUnfundedGuard(limit: UnfundedLimit | undefined): UnfundedGuard {
  return {
    count(answer, { ip, principal }) {
      if (ip === undefined || !isRejection(answer) || !isUnfunded(answer)) return
      limit?.count(ip, principal)
    },
    flawOf({ ip, principal }) {
      if (ip === undefined || limit === undefined) return undefined
      const retryAfterSec = limit.waitSec(ip, principal)
      if (retryAfterSec === 0) return undefined
      const detail = `too many of your orders were rejected for insufficient funds or the limits of a delegate: wait ${retryAfterSec} s before the next order`
      return { ...reject('RATE_LIMITED', undefined, detail), retryAfterSec }
    },
  }
}
