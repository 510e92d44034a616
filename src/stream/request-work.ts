/** Charges stream requests to the client's rate limit, and answers each request when its work is done. */

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

/** The work of a request: resolves to the answer, to a rejection, or to undefined if other code sends the answer. */
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
    /** Called when the work of a request has ended and its answer is sent. */
    readonly answered: (connection: Connection) => void
  },
) {
  const { settings, clock, log } = ports
  const { answer, answerError } = delivery
  const errors = makeRepeatedErrors(log, clock)
  /**
   * Charges the IP address for a request; the cost of its frame is charged separately. Answers `RATE_LIMITED`
   * and returns false if the IP address has no units left.
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

  /**
   * Handles a write that may affect all orders of an address. Rejects the request if the session is not authenticated.
   */
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

  /**
   * Starts the work, and sends its answer when it is done. Rejects the request if too many requests of the connection
   * are open.
   */
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
