/** Common functions for servers on this machine: free ports, waiting, and ending processes. */

import type { ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createServer, type Server } from 'node:net'

const WAIT_MS_MAX = 120_000
const LOOK_EVERY_MS = 50

/**
 * Returns free ports. Each port is released here, before the caller binds it. Meanwhile another server could take the
 * port, but an outgoing connection could not, because the system uses other ports for outgoing connections.
 */
export async function freePorts(count: number): Promise<number[]> {
  const held = await Promise.all(Array.from({ length: count }, () => holdPort()))
  await Promise.all(held.map(({ server }) => new Promise((resolve) => server.close(resolve))))
  return held.map(({ port }) => port)
}

function holdPort(): Promise<{ server: Server; port: number }> {
  return until(
    () =>
      new Promise((resolve, reject) => {
        const server = createServer()
        const port = randomInt(10_240, 32_768)
        server.once('error', reject)
        server.listen(port, '127.0.0.1', () => resolve({ server, port }))
      }),
  )
}

/**
 * Calls `look` until it succeeds. Throws the last error after the timeout. If `isFinal` returns true for an
 * error, throws that error immediately.
 */
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

/** Sends a signal to a process, and waits until the process has ended. */
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
