/** Calls that do not end in the turn that started them: they wait for a promise, fail, or pass their deadline. */

import { Fault } from '#domain/fault.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Call, Sender } from './call.ts'
import type { Log } from './hooks.ts'
import { makeRepeatedErrors } from './repeated-errors.ts'

export type CallFailures = {
  overdue(call: Call): void
  failed(call: Call, error: unknown): void
  /** Continues when the promise settles, unless the request has been answered or aborted by then. */
  later<T>(call: Call, promise: Promise<T>, next: (value: T) => void): void
}

export function makeCallFailures(options: {
  readonly log: Log
  readonly clock: Clock
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
}): CallFailures {
  const { log, clock, hold, sendRejection } = options
  const errors = makeRepeatedErrors(log, clock)

  function overdue(call: Call): void {
    if (call.phase === 'reading') {
      call.closeAfter = true
      answerLater(call, reject('REQUEST_TIMEOUT'))
    } else if (call.phase === 'handling') {
      const { route } = call.compiled
      log.warn(
        { requestId: call.request.requestId, route: route.path },
        'a request passed its deadline',
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
    // An outside failure may be temporary; everything else is a bug.
    const away = error instanceof Fault && error.retryable
    answerLater(call, reject(away ? 'OVERLOADED' : 'INTERNAL'))
  }

  function later<T>(call: Call, promise: Promise<T>, next: (value: T) => void): void {
    hold(call)
    promise.then(
      (value) => {
        if (call.phase !== 'handling') return
        call.res.cork(() => {
          try {
            next(value)
          } catch (error) {
            failed(call, error)
          }
        })
      },
      (error: unknown) => failed(call, error),
    )
  }

  return { overdue, failed, later }
}
