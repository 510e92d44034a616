/** The stages of a call after its body has arrived: authenticate, parse, validate, handle, answer. */

import { strict as assert } from 'node:assert'
import { performance } from 'node:perf_hooks'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import type { Call, Sender } from './call.ts'
import type { CallFailures } from './call-failures.ts'
import { flawOf } from './call-flaw.ts'
import { arrivalOf, type Charges } from './charges.ts'
import { headOf } from './compiled-route.ts'
import type { Hooks } from './hooks.ts'
import { parseJson } from './json.ts'
import type { AuthClass, Principal, RouteRequest, Takeover } from './route.ts'
import { endStage } from './write-stages.ts'

export function takesToken(auth: AuthClass): boolean {
  return auth === 'write' || auth === 'token'
}

type Parts = Pick<CallFailures, 'failed' | 'later'> & {
  readonly hooks: Hooks
  readonly charges: Charges
  readonly sender: Sender
  readonly meter: StageMeter | undefined
  readonly hold: (call: Call) => void
  readonly release: (call: Call) => void
}

export function makeCallHandler(parts: Parts) {
  const { hooks, charges, sender, meter, failed, later } = parts
  const { authenticate, asks = () => true } = hooks
  const { sendRejection } = sender

  /**
   * Authenticates, parses and handles a call whose whole body has arrived. The library owns the memory of the
   * last chunk, which is valid only until this function returns.
   */
  function arrived(call: Call, body: ArrayBuffer | Buffer): void {
    try {
      if (asksWho(call)) {
        // The body is parsed only after authentication, which may wait for a promise. The chunk's memory is not valid
        // after that wait, so the body is copied.
        call.bytes = Buffer.isBuffer(body) ? body : Buffer.from(Buffer.from(body))
        proceed(call)
      } else if (takeBody(call, body)) proceed(call)
    } catch (error) {
      failed(call, error)
    }
  }

  function takeBody(call: Call, bytes: ArrayBuffer | Buffer): boolean {
    if (call.request.stages !== undefined) call.parseFromMs = performance.now()
    if (bytes.byteLength === 0) {
      if (call.compiled.bodyOptional) return true
      sendRejection(call, reject('INVALID_JSON', undefined, 'the request needs a JSON body'))
      return false
    }
    if (!charges.body(call, bytes.byteLength)) return false
    const { value, rejection } = parseJson(bytes)
    if (rejection !== undefined) {
      sendRejection(call, rejection)
      return false
    }
    call.request.body = value
    return true
  }

  function asksWho(call: Call): boolean {
    const { auth } = call.compiled.route
    return authenticate !== undefined && takesToken(auth) && asks(auth)
  }

  function proceed(call: Call): void {
    call.phase = 'handling'
    if (authenticate === undefined || !asksWho(call)) {
      handle(call)
      return
    }
    const answer = authenticate(arrivalOf(call))
    if (answer instanceof Promise) {
      const begunMs = performance.now()
      later(call, answer, (late) => {
        endStage('authenticate', begunMs, call.request.stages, meter)
        identified(call, late)
      })
    } else identified(call, answer)
  }

  function identified(call: Call, answer: Principal | undefined | Rejection): void {
    if (isRejection(answer)) {
      sendRejection(call, answer)
      return
    }
    call.request.principal = answer
    if (answer !== undefined && !charges.arrival(call)) return
    const { bytes } = call
    call.bytes = undefined
    if (bytes === undefined || takeBody(call, bytes)) handle(call)
  }

  function handle(call: Call): void {
    const rejection = flawOf(call)
    const { stages } = call.request
    if (stages !== undefined && call.parseFromMs > 0)
      endStage('parse', call.parseFromMs, stages, meter)
    if (rejection !== undefined) {
      sendRejection(call, rejection)
      return
    }
    if (!charges.rest(call)) return
    const { route } = call.compiled
    if (route.kind === 'sse') {
      const request = call.request as RouteRequest<unknown, unknown, undefined>
      const refused = route.refuse?.(request)
      if (refused !== undefined) {
        sendRejection(call, refused)
        return
      }
      const first = route.first?.(request) ?? ''
      if (!charges.answer(call, first.length)) return
      takeOver(call, (takeover) => route.open(request, takeover, first), parts)
      return
    }
    assert.ok(
      route.kind !== 'upgrade',
      'a route of kind upgrade must not be handled as a plain request',
    )
    const answer = route.handle(call.request)
    if (answer instanceof Promise) later(call, answer, (late) => sender.send(call, late))
    else sender.send(call, answer)
  }

  return { arrived, proceed }
}

/** Hands the connection of a call to a route that sends events on it. */
function takeOver(
  call: Call,
  open: (takeover: Takeover) => void,
  { hold, release, sender, failed }: Pick<Parts, 'hold' | 'release' | 'sender' | 'failed'>,
): void {
  hold(call)
  release(call)
  call.phase = 'over'
  try {
    open({
      res: call.res,
      writeHead: (contentType: string) =>
        sender.writeHead(call, 200, headOf(call.compiled, contentType)),
      onAborted: (listener: () => void) => {
        call.onGone = listener
      },
    })
  } catch (error) {
    // The route may have written a part of its answer, so the connection cannot be used again.
    failed(call, error)
    call.res.close()
  }
}
