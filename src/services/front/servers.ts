/** The HTTP servers of a front: one for its clients, and one for operators if it has its own port. */

import type { OrderVerifier } from '#api/orders/order-verifier.ts'
import { isLoopback } from '#config/settings.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { type Front, startFront } from '#http/server.ts'
import { systemClock } from '#runtime/clock.ts'
import type { StageMeter } from '#runtime/stage-meter.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { makeOperation } from '#services/kit/operation.ts'
import { liveExamples } from './examples.ts'
import type { FrontMemory } from './memory.ts'
import { warmUpFront } from './warm-up.ts'

type StartOptions = Parameters<typeof startFront>[0]

type ServerParts = Pick<StartOptions, 'routes' | 'info'> & {
  readonly meter: StageMeter
  readonly memory: FrontMemory
  readonly operation: ReturnType<typeof makeOperation>
}

export function makeServers({ settings, port }: ThreadData, kit: ThreadContext) {
  let front: Front | undefined
  let admin: Front | undefined
  /** Server for the synthetic orders of the warm-up. */
  let scratch: Front | undefined
  const { log, registry, tracer } = kit
  const plain = {
    sharePort: settings.front.threads > 1,
    corsOrigins: settings.front.corsOrigins,
    deadlineMs: settings.front.deadlineMs,
    requestsInFlightMax: settings.front.requestsInFlightMax,
    connectionsMax: settings.front.connectionsMax,
  }

  return {
    publish: (topic: string, text: string) => void front?.publish(topic, text),
    /** Warms up the front; called before the servers are opened. */
    warmUp: (verifier: OrderVerifier, info: StartOptions['info']) =>
      warmUpFront({
        ...{ settings, verifier, log },
        front: { info, log, settings: plain },
        opened(server) {
          scratch = server
        },
      }),
    /** Opens the servers; returns the port of the server for clients. */
    async open({ routes, info, meter, memory, operation }: ServerParts): Promise<number> {
      const { authenticator, board, limits, turns } = memory
      const { adminHost, adminPort } = settings.front
      front = await startFront({
        routes,
        operation: adminPort === 0 ? 'here' : 'apart',
        isPrivate: isLoopback(settings.front.host) && settings.front.trustedProxies.length === 0,
        settings: {
          ...plain,
          host: settings.front.host,
          port,
          trustedProxies: settings.front.trustedProxies,
          logEvery: settings.logging.requestsEvery,
          ...(settings.limits.enabled
            ? {
                connectionsPerIpMax: settings.front.connectionsPerIpMax,
                siteTimes: settings.limits.siteTimes,
              }
            : {}),
        },
        services: {
          authenticate: ({ authorization }) => authenticator.identify(authorization),
          ...(settings.auth.bearer ? {} : { asks: (auth) => auth === 'token' }),
          ...limits.limiter,
          ...operation,
        },
        ...liveExamples(settings, board, systemClock.nowMs),
        ...{ info, log, registry, meter, tracer, turns },
      })
      if (adminPort !== 0) {
        admin = await startFront({
          ...{ routes: [], operation: 'alone', services: operation, info, log },
          settings: { ...plain, host: adminHost, port: adminPort },
        })
      }
      return front.port
    },
    async close(how?: { readonly drainMs: number }): Promise<void> {
      await Promise.all([scratch?.close(how), admin?.close(how), front?.close(how)])
    },
  }
}
