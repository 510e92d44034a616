/**
 * A wire from one node to one server that can be cut: a port that passes every connection on. Cut, it either ends
 * them and refuses new ones, or says nothing any more and keeps them open, as a broken network does.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type Cut = 'whole' | 'ended' | 'silent'

export type Wire = {
  readonly port: number
  set(state: Cut): void
  close(): void
}

export async function openWire(toPort: number): Promise<Wire> {
  const pairs = new Set<readonly [Socket, Socket]>()
  let state: Cut = 'whole'

  const server = createServer((near) => {
    if (state === 'ended') {
      near.destroy()
      return
    }
    const far = connect(toPort, '127.0.0.1')
    const pair = [near, far] as const
    pairs.add(pair)
    for (const [from, to] of [pair, [far, near] as const]) {
      from.setNoDelay(true)
      from.on('data', (bytes) => {
        if (!to.write(bytes)) from.pause()
      })
      from.on('drain', () => {
        if (state !== 'silent') to.resume()
      })
      from.on('error', () => undefined)
      from.on('close', () => {
        pairs.delete(pair)
        to.destroy()
      })
    }
    if (state === 'silent') hush(pair)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  const hush = (pair: readonly [Socket, Socket]): void => {
    for (const socket of pair) socket.pause()
  }

  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      const before = state
      state = next
      for (const pair of [...pairs]) {
        if (next === 'silent') hush(pair)
        // What was on its way is lost: an old connection would tell the past.
        else if (next === 'ended' || before === 'silent')
          for (const socket of pair) socket.destroy()
      }
    },
    close() {
      server.close()
      for (const pair of pairs) for (const socket of pair) socket.destroy()
    },
  }
}
