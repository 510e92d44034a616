/**
 * Connections to several servers that are one database (a Galera cluster): all go to the same of them, the first of
 * the address, as long as it serves; then to the next. Writers that meet on one server wait for each other's locks;
 * on two, one of them is rolled back when it commits. What was under way when a server was left has failed like
 * any call whose connection was lost.
 */

import { connect, type Socket } from 'node:net'

export type ServerPlace = { readonly host: string; readonly port: number }

export type Servers = {
  /** A connection to the server of now, as the driver asks for it. */
  dial(): Socket
  /** The server of now does not serve: its connections end, and the next ones go to the next. */
  leave(why: string): void
  /** Where the next connection goes. */
  readonly place: ServerPlace
}

const LOOK_EVERY_MS = 1_000
const monotonicMs = (): number => performance.now()

type Line = { readonly at: number; askedAtMs: number | undefined }

/** `silentMsMax`: how long a server may take for an answer. One that was paused says nothing at all. */
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
      let isHeard = false
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
        isHeard = true
        line.askedAtMs = undefined
      })
      // Before whoever waits for the connection hears of it, and tries again.
      const gone = (): void => {
        if (lines.delete(socket) && !isHeard) leave('the server cannot be reached', line.at)
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
