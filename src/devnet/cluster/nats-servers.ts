/**
 * NATS servers on loopback, connected with each other. A client that has all addresses switches to another server if
 * its server stops. Debian's package `nats-server` must be installed.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { openSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { endProcess, freePorts, until } from './local-servers.ts'
import { openWires } from './wire.ts'

const PROGRAM = 'nats-server'

export type NatsServers = {
  /** Addresses of all servers, in the form of `SIBYL_NATS_URL`. */
  readonly url: string
  kill(server: number): Promise<void>
  /** Pauses or resumes one server. */
  signal(server: number, signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Cuts the routes between all servers: each server continues alone with its own clients. */
  split(): void
  /** Restores the routes. */
  join(): void
  /** Starts stopped servers. */
  heal(): Promise<void>
  isUp(server: number): boolean
  readonly count: number
  dispose(): Promise<void>
}

/** Returns the reason why NATS servers cannot run on this machine; undefined if they can. */
export function missingNats(): string | undefined {
  return spawnSync(PROGRAM, ['--version']).status === 0 ? undefined : `${PROGRAM} is not installed`
}

export async function openNatsServers(folder: string, count: number): Promise<NatsServers> {
  const ports = await freePorts(count * 2)
  const clients = ports.slice(0, count)
  const routes = ports.slice(count)
  // Servers advertise to each other only the addresses of their wires (connections that can be cut), and connect only
  // through wires. So no route between servers remains after a cut.
  const wires = await openWires(routes.map(routeTo).join())
  const running: (ChildProcess | undefined)[] = Array.from({ length: count })

  function start(server: number): void {
    const output = openSync(join(folder, `nats-${server + 1}.log`), 'a')
    const others = routes.map((port) => `nats-route://${wires.through(routeTo(port))}`).join(',')
    const own = routeTo(routes[server] ?? 0)
    const child = spawn(
      PROGRAM,
      [
        ...['-a', '127.0.0.1', '-p', String(clients[server]), '-n', `nats-${server + 1}`],
        ...['--cluster_name', 'sibyl', '--cluster', `nats://${own}`],
        ...['--cluster_advertise', wires.through(own)],
        // Servers advertise no addresses to clients, because clients get all addresses from their settings.
        ...['--routes', others, '--no_advertise'],
      ],
      { stdio: ['ignore', output, output] },
    )
    running[server] = child
    child.once('exit', () => {
      if (running[server] === child) running[server] = undefined
    })
  }

  async function heal(): Promise<void> {
    for (let server = 0; server < count; server++) {
      if (running[server] === undefined) start(server)
    }
    await Promise.all(clients.map((port) => until(() => knock(port))))
  }

  process.once('exit', () => {
    for (const child of running) child?.kill('SIGKILL')
  })
  await heal()
  return {
    count,
    url: `nats://${clients.map((port) => `127.0.0.1:${port}`).join(',')}`,
    kill: (server) => endProcess(running[server], 'SIGKILL'),
    signal: (server, signal) => void running[server]?.kill(signal),
    split: () => wires.set('ended'),
    join: () => wires.set('whole'),
    heal,
    isUp: (server) => running[server] !== undefined,
    async dispose() {
      await Promise.all(running.map((child) => endProcess(child, 'SIGKILL')))
      wires.close()
    },
  }
}

function routeTo(port: number): string {
  return `127.0.0.1:${port}`
}

function knock(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.destroy()
      resolve()
    })
  })
}
