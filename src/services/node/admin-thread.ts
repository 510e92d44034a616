/** The admin thread: serves `/healthz`, `/readyz` and `/metrics` on a node that has no front. */

import { aboutApi } from '#api/service/about-api.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { type Front, startFront } from '#http/server.ts'
import type { Thread } from '#runtime/thread.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeOperation } from '#services/kit/operation.ts'

export function adminThread(data: ThreadData): Thread {
  const { settings } = data
  const kit = makeThreadContext(data)
  const { log } = kit
  let server: Front | undefined

  // Close the server before this worker exits, because the exit of a worker with an open server would end the whole
  // process.
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'this thread ends because of a bug')
    void (server?.close({ drainMs: 0 }) ?? Promise.resolve()).finally(() => process.exit(1))
  })

  return {
    async start(supervisor) {
      const { adminHost, adminPort, corsOrigins, deadlineMs } = settings.front
      const { requestsInFlightMax, connectionsMax } = settings.front
      server = await startFront({
        ...{ routes: [], operation: 'alone', log, info: aboutApi(settings.service.name) },
        services: makeOperation(settings, kit.clock, supervisor),
        settings: {
          ...{ host: adminHost, port: adminPort },
          ...{ corsOrigins, deadlineMs, requestsInFlightMax, connectionsMax },
        },
      })
      log.info({ port: server.port }, 'the admin port is open')
    },
    connect() {},
    health: () => '',
    metrics: kit.metrics,
    drain: async () => {},
    async stop() {
      kit.quiet()
      await server?.close()
    },
  }
}
