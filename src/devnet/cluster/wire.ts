/**
 * A wire is a port that forwards every connection from one node to one server, and that can be cut. A cut wire either
 * closes connections and refuses new ones, or keeps them open without forwarding data, like a broken network.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

type Cut = 'whole' | 'ended' | 'silent'

type Wire = {
  readonly port: number
  set(state: Cut): void
  close(): void
}

/** One wire to each server of a kind: to all NATS servers, or to all database servers. */
export type Wires = {
  /** Returns `url` with the port of each server replaced by the port of its wire. */
  through(url: string): string
  set(state: Cut): void
  close(): void
}

const LOCAL = /127\.0\.0\.1:(\d+)/g

/** Opens a wire to each server in the address. */
export async function openWires(url: string): Promise<Wires> {
  const wires = new Map<string, Wire>()
  for (const [, port = ''] of url.matchAll(LOCAL)) wires.set(port, await openWire(Number(port)))
  return {
    through: (to) => to.replace(LOCAL, (_, port) => `127.0.0.1:${wires.get(port)?.port ?? port}`),
    set(state) {
      for (const wire of wires.values()) wire.set(state)
    },
    close() {
      for (const wire of wires.values()) wire.close()
    },
  }
}

async function openWire(toPort: number): Promise<Wire> {
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
        // When a silent cut ends, close the connections. Otherwise they would deliver outdated messages that waited
        // during the cut.
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
