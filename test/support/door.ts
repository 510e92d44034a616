/** A TCP proxy in front of a server, so that a test can cut the connections between them. */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { after } from 'node:test'

/**
 * Starts a proxy in front of the server. `shut` cuts the open connections and refuses new ones until `reopen` is
 * called.
 */
export async function doorTo(target: URL): Promise<{
  readonly url: string
  /** Connections so far. */
  readonly passed: number
  shut(): void
  reopen(): Promise<void>
}> {
  const sockets = new Set<Socket>()
  let server: Server | undefined
  let [port, passed] = [0, 0]
  const reopen = async () => {
    server = createServer((socket) => {
      passed++
      const onward = connect(Number(target.port || 3306), target.hostname)
      for (const end of [socket, onward]) {
        sockets.add(end)
        end.on('close', () => sockets.delete(end))
        // The test cuts connections on purpose, so errors are ignored.
        end.on('error', () => {})
      }
      socket.pipe(onward).pipe(socket)
    })
    await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve))
    port = (server.address() as { port: number }).port
  }
  const shut = () => {
    server?.close()
    for (const socket of sockets) socket.destroy()
  }
  await reopen()
  after(shut)
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    url: url.href,
    get passed() {
      return passed
    },
    shut,
    reopen,
  }
}
