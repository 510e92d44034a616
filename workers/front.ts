/** A front thread: the HTTP server with its routes, and the references to what stands behind it. */

import { workerData } from 'node:worker_threads'
import type { Remote } from 'comlink'
import { AggregatorRegistry, Registry } from 'prom-client'
import { makeLog } from '#config/logging.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { BODY_BYTES_MAX } from '#domain/limits.ts'
import type { Readiness } from '#front/routes/readyz.ts'
import { type Front, startFront } from '#front/server.ts'
import { type Home, runThread } from '#runtime/thread.ts'

const { name, settings, isTerminal, port, version } = workerData as ThreadData
const log = makeLog(settings.log, name, isTerminal)
const registry = new Registry()
registry.setDefaultLabels({ thread: name })

let front: Front | undefined

// A worker that exits while its app is open takes the whole process down, so even after a bug the
// app is closed first. The supervisor then starts the thread again.
process.once('uncaughtException', (error) => {
  log.fatal({ err: error }, 'a bug ends this thread')
  void (front?.close({ drainMs: 0 }) ?? Promise.resolve()).finally(() => process.exit(1))
})

async function start(home: Remote<Home>): Promise<void> {
  front = await startFront({
    routes: [],
    settings: {
      host: settings.front.host,
      port,
      sharePort: settings.front.threads > 1,
      corsOrigins: settings.front.corsOrigins,
      bodyBytesMax: BODY_BYTES_MAX,
      deadlineMs: settings.front.deadlineMs,
      requestsInFlightMax: settings.front.requestsInFlightMax,
    },
    services: {
      readiness: () => readiness(home),
      metrics: async () => AggregatorRegistry.aggregate(await home.metrics()).metrics(),
    },
    info: { title: settings.service.name, version },
    log,
    registry,
  })
  log.info({ port: front.port }, 'the front listens')
}

async function readiness(home: Remote<Home>): Promise<Readiness> {
  const threads = Object.entries(await home.threads())
  return Object.fromEntries(threads.map(([thread, { ready, why }]) => [thread, { ok: ready, why }]))
}

runThread({
  start,
  connect() {},
  health: () => '',
  metrics: () => registry.getMetricsAsJSON(),
  drain: async () => front?.close(),
  stop: async () => front?.close(),
})
