/**
 * Makes sure that a port is ours before several threads share it. Threads share a port by
 * SO_REUSEPORT, and with that flag a second process of the same user would join them unnoticed; so
 * the caller that starts the threads claims the port alone first, and gives it up again at once.
 */

import { createServer } from 'node:net'
import { Fault } from '#domain/fault.ts'

/** Resolves with the port, a free one for 0; a `PORT_IN_USE` fault when another process has it. */
export function claimPort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (cause: NodeJS.ErrnoException) => {
      reject(listenFault(host, port, cause.code, cause))
    })
    probe.listen({ host, port, exclusive: true }, () => {
      const address = probe.address()
      const claimed = typeof address === 'object' && address !== null ? address.port : port
      probe.close(() => resolve(claimed))
    })
  })
}

export function listenFault(host: string, port: number, code?: string, cause?: unknown): Fault {
  return code === undefined || code === 'EADDRINUSE'
    ? new Fault('PORT_IN_USE', `cannot listen on ${host}:${port}: the port is in use`, {
        retryable: true,
        cause,
      })
    : new Fault('CANNOT_LISTEN', `cannot listen on ${host}:${port}: ${code}`, {
        retryable: false,
        cause,
      })
}
