/** A front thread: its memory and links, its routes, and its servers. */

import { aboutApi } from '#api/service/about-api.ts'
import { DEPRECATIONS } from '#api/service/deprecations.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { BRIDGE_THREAD } from '#config/topology.ts'
import { withDeprecations } from '#http/deprecation.ts'
import type { Readiness } from '#http/routes/readyz.ts'
import { makeStageMeter } from '#runtime/stage-meter.ts'
import type { RemoteSupervisor, Thread } from '#runtime/thread.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeOperation } from '#services/kit/operation.ts'
import type { LateParts } from './link-ports.ts'
import { openMemory } from './memory.ts'
import { pageRoutes } from './page.ts'
import { partitionMeters } from './partition-metrics.ts'
import { openFrontPools } from './pools.ts'
import { frontPreviews } from './previews.ts'
import { frontRoutes } from './routes.ts'
import { makeServers } from './servers.ts'
import { verifyMeters } from './verify-metrics.ts'

/** Number of idle checks per idle timeout. */
const RESTS = 4

export function frontThread(data: ThreadData): Thread {
  const { settings } = data
  const kit = makeThreadContext(data)
  const { log, registry } = kit
  const meter = makeStageMeter(registry)
  const servers = makeServers(data, kit)
  const late: LateParts = {}

  // After a bug, the server is closed before the worker exits, because otherwise the exit would end the whole process.
  // The supervisor then restarts the thread.
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'this thread ends because of a bug')
    void late.hub?.shutdown({ atOnce: true })
    void servers.close({ drainMs: 0 }).finally(() => process.exit(1))
  })

  const memory = openMemory(data, kit, late)
  const { board, assets, priceBoard, limits, links, sse, tokens } = memory
  const { use } = links
  if (use !== undefined) kit.every(settings.cluster.dozeMs / RESTS, use.rest)
  partitionMeters(registry, links.followed)
  verifyMeters(registry, async () => (await late.pools?.verifySeconds()) ?? 0)

  async function start(supervisor: RemoteSupervisor): Promise<void> {
    const pools = openFrontPools(settings, log)
    late.pools = pools
    const info = aboutApi(settings.service.name)
    const { publish } = servers
    const routes = frontRoutes(data, kit, { memory, late, pools, about: info, meter, publish })
    const previews = frontPreviews(board, late, pools)
    await servers.warmUp(pools.verifier, info)
    const port = await servers.open({
      routes: [
        ...withDeprecations(routes, DEPRECATIONS),
        ...pageRoutes(settings, supervisor, previews),
      ],
      operation: makeOperation(settings, kit.clock, supervisor, readiness),
      ...{ memory, info, meter },
    })
    const engines = await pools.engines()
    log.info({ port }, `the front is listening; signature engines: ${engines}`)
  }

  /** Returns the readiness checks of this front; the checks of the other threads come from the supervisor. */
  function readiness(): Readiness {
    const why = links.why()
    const markets = { ok: why === '', why }
    if (assets.length === 0) return { markets }
    // Without prices only quick markets stop, so the exchange counts as ready.
    const silent = priceBoard.why()
    return { markets, 'price sources': { ok: silent === '', why: silent, optional: true } }
  }

  return {
    start,
    connect(peer, port) {
      if (peer === BRIDGE_THREAD) limits.connect(port)
      else links.connect(peer, port)
    },
    health: links.why,
    metrics: kit.metrics,
    async drain() {
      sse.shutdown()
      await late.hub?.shutdown()
      await servers.close()
    },
    async stop() {
      await late.hub?.shutdown()
      await servers.close()
      links.close()
      limits.close()
      kit.quiet()
      await late.pools?.close()
      await tokens?.close()
    },
  }
}
