/** The store thread: runs the projector on the logs, and has the only connections that write the database. */

import { databaseUrlOf, isNode, type ThreadData } from '#config/thread-data.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import type { Thread } from '#runtime/thread.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { type Adapters, realWorld, type World } from '#services/kit/world.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { isShared } from '#store/engine/database-url.ts'
import { openDatabase } from '#store/open-database.ts'
import { storeMeters } from './metrics.ts'
import { whyBehind } from './projector.ts'
import { databaseCopier } from './thread/database-copier.ts'
import { type StoreActors, startActors } from './thread/store-actors.ts'
import { makeStoreLinks } from './thread/store-links.ts'
import { makeProjectionTraces } from './thread/trade-traces.ts'

/** Interval at which the store reads the logs even without a notification, because a notification may be lost. */
const LOOK_EVERY_MS = 1_000
/** Interval at which trading volumes are summed again. Events (groups of markets) are sorted by these volumes. */
const VOLUMES_EVERY_MS = 2_000

type StoreWorld = World & Pick<Adapters, 'openDatabase' | 'openLogReader'>

const REAL: StoreWorld = { ...realWorld, openDatabase, openLogReader }

export function storeThread(data: ThreadData, world: StoreWorld = REAL): Thread {
  const { settings } = data
  const kit = makeThreadContext(data, world)
  const { log } = kit
  let database: Database
  /**
   * Connection that writes the projected partitions. If the database is a server, other writes use a second connection,
   * so that they never delay a partition.
   */
  let projection: Database
  let reader: LogReader<MarketEvent>
  let actors: StoreActors | undefined
  let stopped = false
  /** True once another node takes over the store; from then on, this store accepts no new writes. */
  let leaving = false
  const leases = makeLeases(data, kit, world)
  const isDatabaseShared = isShared(databaseUrlOf(settings))
  /** Database connections of the partitions that this store writes. */
  const projectors = new Map<number, Database>()
  const traces = makeProjectionTraces(kit.tracer)
  const links = makeStoreLinks(settings, kit, {
    actors: () => actors,
    isLeaving: () => leaving,
    received: traces.received,
  })

  storeMeters(kit, () => actors?.state)

  /**
   * Holds the leases of the partitions. One node at a time projects a partition; the other nodes only read the
   * partition's position.
   */
  async function holdProjectors(): Promise<void> {
    for (let partition = 0; partition < reader.partitions; partition++) {
      await leases.hold(
        `projector/${partition}`,
        (fence) => {
          projectors.set(partition, { ...projection, fence })
          look()
        },
        () => projectors.delete(partition),
      )
    }
  }

  function look(): void {
    if (!stopped) actors?.projector.hear('Tick', {}, 0, undefined)
  }

  return {
    async start() {
      const url = databaseUrlOf(settings)
      database = await world.openDatabase(url, { copier: databaseCopier })
      projection = isDatabaseShared
        ? await world.openDatabase(url, { connectionsMax: settings.database.writers })
        : database
      reader = world.openLogReader(settings.data.dir, { form: PACKED })
      actors = startActors({ database, reader }, kit, {
        ...links,
        projected: traces.projected,
        projectors: isDatabaseShared ? projectors : undefined,
      })
      actors.endings.hear('Start', {}, 0, undefined)
      // Do not await the leases: this thread must start even without the database, because API keys and other services
      // wait for its start.
      if (isDatabaseShared) kit.detach(holdProjectors())
      look()
      kit.every(LOOK_EVERY_MS, look)
      kit.every(VOLUMES_EVERY_MS, () => {
        if (!stopped && !leaving && actors !== undefined) kit.detach(actors.volumes.refresh())
      })
      log.info(
        { partitions: reader.partitions },
        'the projector now writes the events of the log to the database',
      )
    },
    connect: links.connect,
    health: () => (actors === undefined ? 'starting' : whyBehind(actors.state)),
    metrics: kit.metrics,
    async drain() {
      // In a cluster, only finish the current write. Other nodes continue to append to the log, and the next store
      // projects the new records.
      leaving = isNode(settings)
      actors?.projector.hear(leaving ? 'Leave' : 'Tick', {}, 0, undefined)
      await actors?.projector.drained()
      // Stop ending orders of closed markets. Orders that are still open in the database are ended after the next
      // start.
      actors?.endings.hear('Stop', {}, 0, undefined)
      await Promise.all([
        actors?.endings.drained(),
        actors?.keys.drained(),
        actors?.writes.drained(),
      ])
    },
    async stop() {
      stopped = true
      kit.quiet()
      links.close()
      await reader.close()
      await leases.close()
      if (projection !== database) await closeDatabase(projection)
      await closeDatabase(database)
    },
  }
}
