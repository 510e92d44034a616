/** What servers that are started here have in common: ports, waiting, and an end with their parent. */

import type { ChildProcess } from 'node:child_process'
import { createServer } from 'node:net'

const WAIT_MS_MAX = 120_000
const LOOK_EVERY_MS = 50

/** They are let go again before they are used; on loopback nobody else takes them meanwhile. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer()
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

/** Tries again until it does not fail; fails with its last error when that takes too long, or is final. */
export async function until<Value>(
  look: () => Promise<Value> | Value,
  isFinal: (error: unknown) => boolean = () => false,
): Promise<Value> {
  const giveUpMs = Date.now() + WAIT_MS_MAX
  for (;;) {
    try {
      return await look()
    } catch (error) {
      if (isFinal(error) || Date.now() > giveUpMs) throw error
    }
    await new Promise((wake) => setTimeout(wake, LOOK_EVERY_MS))
  }
}

/** Sends the signal and waits for the end. */
export function endProcess(
  child: ChildProcess | undefined,
  signal: NodeJS.Signals = 'SIGTERM',
): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
    return Promise.resolve()
  }
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  return ended
}
