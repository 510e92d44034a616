/**
 * Passes the frames of clients from the socket to the handlers of requests. The size, rate and cost of a frame are
 * checked before its content is read. A connection that keeps breaking the rules is closed.
 */

import { reject } from '#domain/rejection.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Connection, Socket } from './connection.ts'
import type { Delivery } from './delivery.ts'
import { idOf, isMisread, type Request, readFrame } from './frames.ts'
import { makeIntake } from './intake.ts'
import { type Draw, frameWeight, MISFIT_WEIGHT } from './weights.ts'

/** WebSocket close codes for clients that break the rules. */
const CLOSE_MALFORMED = 4400
const CLOSE_FLOOD = 4429
const CLOSE_TOO_BIG = 1009

/**
 * Maximum number of malformed frames of a connection within the window. The next malformed frame closes the connection.
 */
export const MALFORMED_MAX = 100
/**
 * Maximum number of frames above the rate limit within the window, as a multiple of `messagesPerSecond`. A connection
 * that sends more is closed.
 */
const EXCESS_SECONDS = 10
/**
 * A frame is refused if its IP address has no cost units left. Each unit of the frame's cost then counts as this many
 * frames above the rate limit.
 */
const UNPAID_EXCESS = 5
export const WINDOW_MS = 10_000

type FrameGatePorts = {
  readonly clock: Clock
  readonly draw?: Draw | undefined
  readonly turns: FairTurns
  readonly settings: {
    readonly messagesPerSecond: number
    readonly messagesBurst: number
    readonly payloadBytesMax: number
  }
}

export function makeFrameGate(
  { clock, draw, turns, settings }: FrameGatePorts,
  {
    delivery,
    act,
    emptied,
  }: {
    readonly delivery: Pick<Delivery, 'answerError' | 'end'>
    readonly act: (connection: Connection, request: Request) => void
    /** Called when no frame of the connection is waiting any more. */
    readonly emptied: (connection: Connection) => void
  },
) {
  const { answerError, end } = delivery
  const intake = makeIntake({ turns, handle, refuse: refuseBusy, emptied })

  /** Takes one message from the connection's rate limit. Returns false if the limit is used up. */
  function withinRate(connection: Connection, nowMs: number): boolean {
    const { messagesPerSecond, messagesBurst } = settings
    const elapsedSec = Math.max(0, nowMs - connection.tokensAtMs) / 1_000
    connection.tokens = Math.min(messagesBurst, connection.tokens + elapsedSec * messagesPerSecond)
    connection.tokensAtMs = nowMs
    if (connection.tokens < 1) return false
    connection.tokens--
    return true
  }

  function received(ws: Socket, message: ArrayBuffer, isBinary: boolean): void {
    const { connection } = ws.getUserData()
    if (connection.doomedAtMs !== undefined) return
    const nowMs = clock.nowMs()
    beginWindow(connection, nowMs)
    if (message.byteLength > settings.payloadBytesMax) {
      const detail = `a frame must have at most ${settings.payloadBytesMax} bytes`
      answerError(connection, undefined, reject('BODY_TOO_LARGE', undefined, detail))
      end(connection, CLOSE_TOO_BIG, 'the frame is too large')
      return
    }
    if (!withinRate(connection, nowMs)) {
      refuse(connection, message, 1)
      return
    }
    const weight = frameWeight(message.byteLength)
    const verdict = draw?.({ cost: 'read', weight }, connection.ip, undefined)
    if (verdict?.allowed === false) {
      refuse(connection, message, UNPAID_EXCESS * weight)
      if (verdict.insists === true) end(connection, CLOSE_FLOOD, 'too many messages')
      return
    }
    if (!intake.take(connection, message, isBinary)) refuseBusy(connection, message)
  }

  function refuseBusy(connection: Connection, message: ArrayBuffer): void {
    answerError(connection, idOf(message), reject('OVERLOADED'))
  }

  /** Refuses a frame above the rate limit; closes a connection that keeps sending such frames. */
  function refuse(connection: Connection, message: ArrayBuffer, excess: number): void {
    answerError(connection, idOf(message), reject('RATE_LIMITED'))
    exceed(connection, excess)
  }

  function exceed(connection: Connection, frames: number): void {
    connection.excess += frames
    if (connection.excess > EXCESS_SECONDS * settings.messagesPerSecond) {
      end(connection, CLOSE_FLOOD, 'too many messages')
    }
  }

  /** Handles a frame whose cost was charged. */
  function handle(connection: Connection, message: ArrayBuffer, isBinary: boolean): void {
    if (connection.ws === undefined || connection.doomedAtMs !== undefined) return
    const read = readFrame(message, isBinary)
    if (!isMisread(read)) {
      act(connection, read)
      return
    }
    const isPaid = draw?.(MISFIT_WEIGHT, connection.ip, undefined).allowed !== false
    answerError(connection, read.id, isPaid ? read.why() : reject('RATE_LIMITED'))
    if (read.malformed && ++connection.malformed > MALFORMED_MAX) {
      end(connection, CLOSE_MALFORMED, 'too many malformed frames')
    }
  }

  /** The library answers pings by itself. Pings count like frames: too many of them end the connection. */
  function pinged(ws: Socket): void {
    const { connection } = ws.getUserData()
    if (connection.doomedAtMs !== undefined) return
    const nowMs = clock.nowMs()
    beginWindow(connection, nowMs)
    if (!withinRate(connection, nowMs)) exceed(connection, 1)
  }

  return { received, pinged, forget: intake.forget }
}

function beginWindow(connection: Connection, nowMs: number): void {
  if (nowMs - connection.windowAtMs < WINDOW_MS) return
  connection.windowAtMs = nowMs
  connection.malformed = 0
  connection.excess = 0
}
