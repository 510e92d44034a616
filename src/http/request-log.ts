/** Logs one of `every` answered requests, with route, status and latency; none if `every` is 0. */

import type { Call } from './call.ts'

export function makeRequestLog(
  log: { info(fields: object, message: string): void },
  every: number,
): (call: Call, status: number, ms: number) => void {
  let since = 0
  return ({ compiled, request }, status, ms) => {
    if (every === 0 || ++since < every) return
    since = 0
    const { method, path } = compiled.route
    // Logs the route without its parameters, because a path or a query may contain a secret.
    log.info(
      {
        method,
        route: path,
        status,
        ms: Math.round(ms * 1_000) / 1_000,
        requestId: request.requestId,
        every,
      },
      'a request was answered',
    )
  }
}
