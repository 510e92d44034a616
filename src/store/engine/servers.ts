/**
 * Connections to several servers that are one database (a Galera cluster). All use the same server, the first of the
 * address, as long as it works; then the next. Writers on one server wait for each other's locks; on two servers, one
 * of them is rolled back at commit. When a server is abandoned, calls in progress fail like any call whose connection
 * was lost.
 */

import { connect, type Socket } from 'node:net'

export type ServerPlace = { readonly host: string; readonly port: number }

export type Servers = {
  /** Opens a connection to the current server, for the driver. */
  dial(): Socket
  /** Abandons the current server: ends its connections, and opens new ones to the next. */
  leave(why: string): void
  /** Server of the next connection. */
  readonly place: ServerPlace
}

const LOOK_EVERY_MS = 1_000
const monotonicMs = (): number => performance.now()

type Line = { readonly at: number; askedAtMs: number | undefined }

/** `silentMsMax`: maximum time without an answer. A paused server sends nothing. */
export function makeServers(
  places: readonly ServerPlace[],
  silentMsMax = Number.POSITIVE_INFINITY,
): Servers {
  const lines = new Map<Socket, Line>()
  let at = 0
  let timer: NodeJS.Timeout | undefined

  function leave(why: string, left = at): void {
    if (left === at) at = (at + 1) % places.length
    for (const [socket, line] of lines) if (line.at === left) socket.destroy(lost(why))
  }

  function look(): void {
    const oldestMs = monotonicMs() - silentMsMax
    for (const { at: asked, askedAtMs = Number.POSITIVE_INFINITY } of [...lines.values()]) {
      if (askedAtMs < oldestMs) leave('the server did not answer in time', asked)
    }
  }

  return {
    dial() {
      const { host, port } = places[at]!
      const socket = connect(port, host)
      const line: Line = { at, askedAtMs: monotonicMs() }
      let hasAnswered = false
      lines.set(socket, line)
      if (timer === undefined && silentMsMax < Number.POSITIVE_INFINITY) {
        timer = setInterval(look, LOOK_EVERY_MS).unref()
      }
      socket.setNoDelay(true)
      const write = socket.write.bind(socket) as (...given: unknown[]) => boolean
      socket.write = (...given: unknown[]) => {
        line.askedAtMs ??= monotonicMs()
        return write(...given)
      }
      socket.on('data', () => {
        hasAnswered = true
        line.askedAtMs = undefined
      })
      // Runs before the callers that wait for this connection fail and retry.
      const gone = (): void => {
        if (lines.delete(socket) && !hasAnswered) leave('the server cannot be reached', line.at)
      }
      socket.once('error', gone)
      socket.once('close', () => {
        gone()
        if (lines.size > 0) return
        clearInterval(timer)
        timer = undefined
      })
      return socket
    },
    leave: (why) => leave(why),
    get place() {
      return places[at]!
    },
  }
}

function lost(why: string): Error {
  return Object.assign(new Error(why), { code: 'ECONNRESET' })
}
