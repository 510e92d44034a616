/**
 * Connections to several servers that are one database (a Galera cluster). All connections lead to the same server: the
 * first server of the address while it works, then the next server. If two writers used two servers and wrote the same
 * rows, one of them would be rolled back at its commit. On the same server, the second writer only waits for the locks
 * of the first. When a server is abandoned, calls in progress fail like any call whose connection was lost.
 */

import { connect, type Socket } from 'node:net'

export type ServerPlace = { readonly host: string; readonly port: number }

export type Servers = {
  /** Opens a connection to the current server, for the driver. `loggedIn` finds the connection by the same `owner`. */
  dial(owner: object): Socket
  /**
   * Must be called after each login. `isAsking` returns whether a statement on this connection has no complete answer
   * yet.
   */
  loggedIn(owner: object, isAsking: () => boolean): void
  /** Abandons the current server: ends its connections, and opens later connections to the next server. */
  leave(why: string): void
  /** Server to which the next connection is opened. */
  readonly place: ServerPlace
}

/**
 * Number of checks of a silent connection before its server is abandoned. A pause of this process counts as one
 * check, however long it is.
 */
const LOOKS_MAX = 10

type Line = {
  readonly at: number
  isAsking: () => boolean
  /** Number of bytes received until the last check. */
  bytes: number
  silentLooks: number
}

/**
 * Makes the set of servers. `silentMsMax` is the maximum time without a byte while an answer is due: a paused server
 * sends nothing, and may stop in the middle of an answer.
 */
export function makeServers(
  places: readonly ServerPlace[],
  silentMsMax = Number.POSITIVE_INFINITY,
  startTimer: (look: () => void, everyMs: number) => NodeJS.Timeout = setInterval,
): Servers {
  const lines = new Map<Socket, Line>()
  const lineOf = new WeakMap<object, Line>()
  let at = 0
  let timer: NodeJS.Timeout | undefined

  function leave(why: string, left = at): void {
    if (left === at) at = (at + 1) % places.length
    for (const [socket, line] of lines) if (line.at === left) socket.destroy(lost(why))
  }

  function look(): void {
    for (const [socket, line] of [...lines]) {
      const isSilent = line.isAsking() && socket.bytesRead === line.bytes
      line.bytes = socket.bytesRead
      line.silentLooks = isSilent ? line.silentLooks + 1 : 0
      if (line.silentLooks > LOOKS_MAX) leave('the server did not answer in time', line.at)
    }
  }

  return {
    dial(owner) {
      const { host, port } = places[at]!
      const socket = connect(port, host)
      const line: Line = { at, isAsking: () => true, bytes: 0, silentLooks: 0 }
      lines.set(socket, line)
      lineOf.set(owner, line)
      if (timer === undefined && silentMsMax < Number.POSITIVE_INFINITY) {
        timer = startTimer(look, silentMsMax / LOOKS_MAX).unref()
      }
      socket.setNoDelay(true)
      // `gone` runs before the calls on this connection fail, so their retries use another server.
      const gone = (): void => {
        if (lines.delete(socket) && socket.bytesRead === 0) {
          leave('the server cannot be reached', line.at)
        }
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
    loggedIn(owner, isAsking) {
      const line = lineOf.get(owner)
      if (line !== undefined) line.isAsking = isAsking
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
