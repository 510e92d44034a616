/** Charges requests on the WebSocket to the client's rate limit, and answers each when its work is done. */

import { Fault } from '#domain/fault.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { makeRepeatedErrors } from '#http/repeated-errors.ts'
import type { Principal } from '#http/route.ts'
import type { Connection } from './connection.ts'
import type { Delivery } from './delivery.ts'
import type { FrameId, Request } from './frames.ts'
import type { RequestPorts } from './request-ports.ts'
import type { Sessions } from './sessions.ts'
import { OP_WEIGHTS } from './weights.ts'

/** Returns the answer, a rejection, or undefined if the request is answered elsewhere. */
type Work = () => Promise<object | Rejection | undefined>

export type RequestWork = ReturnType<typeof makeRequestWork>

export function makeRequestWork(
  ports: RequestPorts,
  {
    delivery,
    sessions,
    answered,
  }: {
    readonly delivery: Delivery
    readonly sessions: Sessions
    /** Called when an asynchronous request was answered. */
    readonly answered: (connection: Connection) => void
  },
) {
  const { settings, clock, log } = ports
  const { answer, answerError } = delivery
  const errors = makeRepeatedErrors(log, clock)
  /**
   * Charges the cost of a request, in addition to the cost of its frame, to the IP address. Answers `RATE_LIMITED` and
   * returns false if the IP address has no units left.
   */
  function pays(
    connection: Connection,
    { op, id }: Request,
    options: { readonly snapshot?: number; readonly principal?: Principal | undefined } = {},
  ): boolean {
    const { cost, weight: named } = OP_WEIGHTS[op]
    const weight = named === 'snapshot' ? (options.snapshot ?? 0) : named
    if (weight === 0) return true
    const verdict = ports.draw?.({ cost, weight }, connection.ip, options.principal)
    if (verdict?.allowed !== false) return true
    answerError(connection, id, reject('RATE_LIMITED'))
    return false
  }

  function write(connection: Connection, request: Request, work: Work): void {
    const principal = sessions.principalOf(connection)
    if (ports.bearer && principal === undefined) {
      answerError(connection, request.id, reject('UNAUTHORIZED_MISSING_HEADER'))
    } else if (pays(connection, request, { principal })) later(connection, request.id, work)
  }

  /** Handles a write that concerns all orders of an address. Rejects it if the session is not authenticated. */
  function ownWrite(
    connection: Connection,
    request: Request,
    work: (principal: Principal, deadlineAtMs: number) => Promise<object | Rejection>,
  ): void {
    const principal = sessions.principalOf(connection)
    if (principal === undefined) {
      answerError(connection, request.id, reject('UNAUTHORIZED_MISSING_HEADER'))
      return
    }
    write(connection, request, () => work(principal, clock.nowMs() + settings.deadlineMs))
  }

  /** Does the work, then sends its answer, unless the connection has closed meanwhile. */
  function later(connection: Connection, id: FrameId | undefined, work: Work): void {
    if (connection.inFlight >= settings.requestsInFlightMax) {
      answerError(connection, id, reject('OVERLOADED'))
      return
    }
    connection.inFlight++
    work()
      .catch((error: unknown) => {
        errors.tell(error, { session: connection.session }, 'a request of the stream failed')
        // A retryable fault may be temporary, such as an unavailable database. Every other error is a bug.
        return reject(error instanceof Fault && error.retryable ? 'OVERLOADED' : 'INTERNAL')
      })
      .then((result) => {
        connection.inFlight--
        if (isRejection(result)) answerError(connection, id, result)
        else if (result !== undefined) answer(connection, { ...result, id })
        answered(connection)
      })
  }

  return { pays, later, write, ownWrite }
}
