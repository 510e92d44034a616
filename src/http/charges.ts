/**
 * What requests pay: on arrival, for the length of a body before it is parsed, and for what body and query turn
 * out to ask for. Each is paid before the work that it is for; a request that cannot pay is refused here.
 */

import { SMALL_BODY_BYTES_MAX } from '#domain/limits.ts'
import { reject } from '#domain/rejection.ts'
import type { Call, LimitVerdict, Sender } from './call.ts'
import type { AuthClass, CostClass, Principal } from './route.ts'

/** What a limit or an authentication decides on. */
export type Arrival = {
  readonly requestId: string
  readonly route: string
  readonly auth: AuthClass
  readonly cost: CostClass
  /** How many times the cost is due; once if not said. */
  readonly weight?: number
  readonly ip: string
  /** The `Authorization` header, '' if there is none; read on `write` and `token` routes only. */
  readonly authorization: string
  readonly deadlineAtMs: number
}

export type LimitHooks = {
  /**
   * Called for every request that is not free, before its body is read, and once more with the
   * principal after authentication. It answers at once: what it knows is in memory.
   */
  readonly limit?: (arrival: Arrival, principal: Principal | undefined) => LimitVerdict | undefined
  /** Called besides where a body asks for several things at once: so many more than one. */
  readonly limitMore?: (
    arrival: Arrival,
    principal: Principal | undefined,
    times: number,
  ) => LimitVerdict | undefined
}

type Charges = {
  /** Pays once what the route costs, or a request of this class. */
  arrival(call: Call, cost?: CostClass): boolean
  /** Pays for a body of this length: to parse and refuse it costs something, whatever is in it. */
  body(call: Call, bytes: number): boolean
  /** Pays for an answer of this length: the bandwidth of an address is bounded like its requests. */
  answer(call: Call, bytes: number): boolean
  /** Pays for the rest of what asks for several things at once, or for something dearer than usual. */
  rest(call: Call): boolean
}

/** So many bytes of a body are part of the cost of a request. */
const BYTES_PER_COST = SMALL_BODY_BYTES_MAX

/** So many bytes of an answer are part of the cost of a read: 8 MiB a second by the default limits. */
const ANSWER_BYTES_PER_READ = 16 * 1024

export function makeCharges(
  { limit, limitMore }: LimitHooks,
  sendRejection: Sender['sendRejection'],
): Charges {
  function passes(call: Call, verdict: LimitVerdict | undefined): boolean {
    call.verdict = verdict
    if (verdict === undefined || verdict.allowed) return true
    sendRejection(call, reject('RATE_LIMITED'))
    return false
  }

  /** Pays until the cost is paid so many times; what was paid for the length of a body counts. */
  function pays(call: Call, times: number): boolean {
    const more = times - call.timesPaid
    if (limitMore === undefined || more <= 0) return true
    call.timesPaid = times
    return passes(call, limitMore(arrivalOf(call), call.request.principal, more))
  }

  return {
    arrival(call, cost = call.compiled.route.cost) {
      if (limit === undefined || cost === 'free') return true
      return passes(call, limit(arrivalOf(call, cost), call.request.principal))
    },
    body: (call, bytes) => pays(call, Math.ceil(bytes / BYTES_PER_COST)),
    answer(call, bytes) {
      const { cost, weight = 1 } = call.compiled.route
      if (cost !== 'read' || call.isHead) return true
      return pays(call, Math.ceil(bytes / ANSWER_BYTES_PER_READ / weight))
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
