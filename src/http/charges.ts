/**
 * Charges requests against their rate limits. A request is charged on arrival, for the length of its body, for the
 * items in body and query, and for the length of its answer. The answer is charged after it was made. Every other
 * charge is made before the work that it pays for. If a charge fails, the request is refused here.
 */

import { SMALL_BODY_BYTES_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import type { Call, LimitVerdict, Sender } from './call.ts'
import type { AuthClass, CostClass, Principal } from './route.ts'

/** Facts about a request that rate limits and authentication use. */
export type Arrival = {
  readonly requestId: string
  readonly route: string
  readonly auth: AuthClass
  readonly cost: CostClass
  /** Factor that multiplies the cost of the route's class; 1 by default. */
  readonly weight?: number
  readonly ip: string
  /** The `Authorization` header, '' if there is none; read on `write` and `token` routes only. */
  readonly authorization: string
  readonly deadlineAtMs: number
}

export type LimitHooks = {
  /**
   * Called for every request: before its body is read, and again with the principal after
   * authentication. It is synchronous, because all its state is in memory.
   */
  readonly limit?: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict | undefined
  /**
   * Charges further multiples of a request's cost, for example for a body with several items. `times`: the number of
   * multiples not charged yet. `isDone`: true if the work is already done, so the charge is made even above the limit.
   */
  readonly limitMore?: (
    arrival: Arrival,
    principal: Principal | undefined,
    times: number,
    isDone: boolean,
  ) => LimitVerdict | undefined
}

export type Charges = {
  /**
   * Charges the cost of the call's route once, or the cost of the class `cost` if given. Returns false if the charge
   * failed and the call has been refused. `body`, `answer` and `rest` also return false in this case.
   */
  arrival(call: Call, cost?: CostClass): boolean
  /** Charges for a body of this length, because even parsing and refusing a body costs time. */
  body(call: Call, bytes: number): boolean
  /**
   * Charges for an answer by its length, which stands for the bandwidth and for the work of making the answer. The work
   * is already done, so the charge is always made. If the client's rate limit was in debt before the charge, a
   * rejection is sent instead of the answer.
   */
  answer(call: Call, bytes: number): boolean
  /** Charges for further items of a request, or for a request that is more expensive than usual. */
  rest(call: Call): boolean
}

/** Number of bytes of a request body that the cost of a request covers. */
const BYTES_PER_COST = SMALL_BODY_BYTES_MAX

/**
 * Number of bytes of an answer that the cost of one read covers. With the default limit of 500 reads per
 * second, an IP address can receive about 8 MiB per second.
 */
const ANSWER_BYTES_PER_READ = 16 * 1024

export function makeCharges(
  { limit, limitMore }: LimitHooks,
  sendRejection: Sender['sendRejection'],
  refuseLate: (call: Call) => boolean,
): Charges {
  function passes(call: Call, verdict: LimitVerdict | undefined): boolean {
    call.verdict = verdict
    if (verdict === undefined || verdict.allowed) return true
    // The connection of a proxy carries other clients too, so refusals on it are never delayed.
    const isLate = verdict.insists === true && call.phase === 'open' && call.isDirect
    if (isLate && refuseLate(call)) return false
    sendRejection(call, reject('RATE_LIMITED'))
    return false
  }

  /**
   * Raises the total charge of a request to `times` times the cost of its route. Charges made earlier for the request,
   * such as for the length of its body, are part of this total. Returns false if the request has been refused.
   */
  function pays(call: Call, times: number, isDone = false): boolean {
    const more = times - call.timesPaid
    if (limitMore === undefined || more <= 0) return true
    call.timesPaid = times
    return passes(call, limitMore(arrivalOf(call), call.request.principal, more, isDone))
  }

  return {
    arrival(call, cost = call.compiled.route.cost) {
      if (limit === undefined) return true
      return passes(call, limit(arrivalOf(call, cost), call.request.principal))
    },
    body: (call, bytes) => pays(call, Math.ceil(bytes / BYTES_PER_COST)),
    answer(call, bytes) {
      const { cost, weight = 1 } = call.compiled.route
      if (cost !== 'read') return true
      return pays(call, Math.ceil(bytes / ANSWER_BYTES_PER_READ / weight), true)
    },
    rest(call) {
      const { route } = call.compiled
      if (!('times' in route || 'weigh' in route)) return true
      const { body, query } = call.request
      return pays(call, (route.times?.(body as never) ?? 1) * (route.weigh?.(query as never) ?? 1))
    },
  }
}

export function arrivalOf(call: Call, cost = call.compiled.route.cost): Arrival {
  const { requestId, ip, deadlineAtMs } = call.request
  const { authorization } = call
  const { auth, path, weight = 1 } = call.compiled.route
  return { requestId, route: path, auth, cost, weight, ip, authorization, deadlineAtMs }
}
