/**
 * Checks that a port is free before several threads share it. Threads share a port by SO_REUSEPORT. With this flag, a
 * second process of the same user could share the port unnoticed. So before a process starts its threads, it opens the
 * port exclusively and closes it again. This fails if another process uses the port.
 */

import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { Fault } from '#domain/fault.ts'

/**
 * Port 0 is replaced by a random port from this range. Systems do not use this range for outgoing connections, so no
 * outgoing connection takes the port before the threads listen.
 */
const DRAWN_FROM = 10_240
const DRAWN_TO = 32_768
const DRAWS_MAX = 100

/**
 * Resolves with `port`, or with a random free port if `port` is 0. Throws a `PORT_IN_USE` fault if another process uses
 * the port. The fault names the `setting` that chooses another port.
 */
export async function claimPort(host: string, port: number, setting?: string): Promise<number> {
  if (port !== 0) return tryPort(host, port, setting)
  for (let draw = 1; ; draw++) {
    const drawn = randomInt(DRAWN_FROM, DRAWN_TO)
    try {
      return await tryPort(host, drawn)
    } catch (error) {
      if (draw === DRAWS_MAX || (error as Fault).code !== 'PORT_IN_USE') throw error
    }
  }
}

function tryPort(host: string, port: number, setting?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (cause: NodeJS.ErrnoException) => {
      reject(listenFault(host, port, { code: cause.code, cause, setting }))
    })
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(port)))
  })
}

type Refused = {
  readonly code?: string | undefined
  readonly cause?: unknown
  readonly setting?: string | undefined
}

export function listenFault(host: string, port: number, refused: Refused = {}): Fault {
  const { code, cause, setting } = refused
  const hint = setting === undefined ? '' : `; set ${setting} to another port`
  return code === undefined || code === 'EADDRINUSE'
    ? new Fault('PORT_IN_USE', `cannot listen on ${host}:${port}: the port is in use${hint}`, {
        retryable: true,
        cause,
      })
    : new Fault('CANNOT_LISTEN', `cannot listen on ${host}:${port}: ${code}`, {
        retryable: false,
        cause,
      })
}
