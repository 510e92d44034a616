/** Continues calls that wait for a promise, and answers calls that fail or exceed their deadline. */

import { Fault } from '#domain/fault.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Call, Sender } from './call.ts'
import type { FairTurns } from './fair-turns.ts'
import type { Log } from './hooks.ts'
import { makeRepeatedErrors } from './repeated-errors.ts'

export type CallFailures = {
  overdue(call: Call): void
  failed(call: Call, error: unknown): void
  /** Calls `next` with the value of the promise, unless the request has been answered or aborted by then. */
  later<T>(call: Call, promise: Promise<T>, next: (value: T) => void): void
}

export function makeCallFailures(options: {
  readonly log: Log
  readonly clock: Clock
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
  readonly turns: FairTurns | undefined
}): CallFailures {
  const { log, clock, hold, sendRejection, turns } = options
  const errors = makeRepeatedErrors(log, clock)

  function overdue(call: Call): void {
    if (call.phase === 'reading') {
      call.closeAfter = true
      answerLater(call, reject('REQUEST_TIMEOUT'))
    } else if (call.phase === 'handling') {
      const { route } = call.compiled
      log.warn(
        { requestId: call.request.requestId, route: route.path },
        'a request was not answered by its deadline, so it gets an error',
      )
      answerLater(call, reject(route.method === 'GET' ? 'OVERLOADED' : 'OUTCOME_UNKNOWN'))
    }
  }

  function answerLater(call: Call, rejection: Rejection): void {
    call.res.cork(() => sendRejection(call, rejection))
  }

  function failed(call: Call, error: unknown): void {
    const { requestId } = call.request
    errors.tell(error, { requestId, route: call.compiled.route.path }, 'a request failed')
    if (call.phase === 'over' || call.phase === 'sending') return
    // A retryable fault may be temporary, such as an unavailable database. Every other error is a bug.
    const away = error instanceof Fault && error.retryable
    answerLater(call, reject(away ? 'OVERLOADED' : 'INTERNAL'))
  }

  /**
   * Continues a read whose data has arrived, as soon as the fair queue gives its IP address a turn. Hundreds of reads
   * may wait for the same promise, and sending all their answers at once would delay other clients.
   */
  function inTurn(call: Call, next: () => void): void {
    const { ip } = call.request
    if (turns === undefined || call.compiled.route.cost !== 'read') {
      next()
      return
    }
    const beganMs = turns.begin(ip)
    if (beganMs !== undefined) {
      next()
      turns.done(ip, beganMs)
      return
    }
    const refuse = (): void => {
      if (call.phase === 'handling') answerLater(call, reject('RATE_LIMITED'))
    }
    if (!turns.wait(ip, { bytes: 0, run: next, refuse })) refuse()
  }

  function later<T>(call: Call, promise: Promise<T>, next: (value: T) => void): void {
    hold(call)
    promise.then(
      (value) =>
        inTurn(call, () => {
          if (call.phase !== 'handling') return
          call.res.cork(() => {
            try {
              next(value)
            } catch (error) {
              failed(call, error)
            }
          })
        }),
      (error: unknown) => failed(call, error),
    )
  }

  return { overdue, failed, later }
}
