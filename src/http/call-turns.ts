/** Continues a call at once, or delays the call until its IP address gets a turn on the event loop. */

import { reject } from '#domain/rejection.ts'
import type { Call, Sender } from './call.ts'
import type { CallFailures } from './call-failures.ts'
import type { makeCallHandler } from './call-handler.ts'
import type { FairTurns } from './fair-turns.ts'

type Body = ArrayBuffer | Buffer | undefined

export function makeCallTurns(parts: {
  readonly turns: FairTurns | undefined
  readonly handler: ReturnType<typeof makeCallHandler>
  readonly hold: (call: Call) => void
  readonly sendRejection: Sender['sendRejection']
  readonly failed: CallFailures['failed']
}): (call: Call, body: Body) => void {
  const { turns, handler, hold, sendRejection, failed } = parts

  function goOn(call: Call, body: Body): void {
    if (body === undefined) handler.proceed(call)
    else handler.arrived(call, body)
  }

  function resume(call: Call, body: Buffer | undefined): void {
    try {
      goOn(call, body)
    } catch (error) {
      failed(call, error)
    }
  }

  return (call, body) => {
    if (turns === undefined || call.compiled.route.cost === 'health') {
      goOn(call, body)
      return
    }
    const { ip } = call.request
    const beganMs = turns.begin(ip)
    if (beganMs !== undefined) {
      goOn(call, body)
      turns.done(ip, beganMs)
      return
    }
    // The library owns the chunk's memory, which is valid only until this function returns, so the chunk is copied.
    const kept = body instanceof ArrayBuffer ? Buffer.from(Buffer.from(body)) : body
    hold(call)
    call.phase = 'handling'
    const whileHeld = (next: () => void) => () => {
      if (call.phase === 'handling') call.res.cork(next)
    }
    const refuse = (): void => sendRejection(call, reject('RATE_LIMITED'))
    const waits = turns.wait(ip, {
      bytes: kept?.length ?? 0,
      run: whileHeld(() => resume(call, kept)),
      refuse: whileHeld(refuse),
    })
    if (!waits) refuse()
  }
}
