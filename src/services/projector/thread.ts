/** The store thread: the projector on the logs, and the only connection that writes. */

import { databaseUrlOf, isNode, type ThreadData } from '#config/thread-data.ts'
import { LOG_COPY_THREAD, marketThreadName, SETTLEMENT_THREAD } from '#config/topology.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { KeyFollowerProtocol } from '#protocol/projector.ts'
import type { SettlementRequests } from '#protocol/settlement.ts'
import type { Protocol } from '#runtime/actor.ts'
import type { Channel } from '#runtime/channel.ts'
import type { ReplyChannel, Served } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { makeFollowers, makeKit, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { type Adapters, realWorld, type World } from '#services/kit/world.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { isShared } from '#store/engine/database-url.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { endOrders, marketsToEnd } from '#store/projection/end-orders.ts'
import { project } from '#store/projection/project.ts'
import { makeTurnProjector } from '#store/projection/project-turn.ts'
import { registerApiKey, revokeApiKey } from '#store/writes/api-keys.ts'
import { runWrites, sharesCommit } from '#store/writes/writes.ts'
import {
  type ApiKeysEvent,
  type ApiKeysProtocol,
  type ApiKeysState,
  apiKeys,
  newApiKeys,
} from './api-keys.ts'
import { storeMeters } from './metrics.ts'
import {
  newOrderEndings,
  type OrderEndingsEvent,
  type OrderEndingsProtocol,
  type OrderEndingsState,
  orderEndings,
} from './order-endings.ts'
import {
  newStore,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
  whyBehind,
} from './projector.ts'
import { databaseCopier } from './thread/database-copier.ts'
import {
  newWriteQueue,
  type WriteQueueProtocol,
  type WriteQueueState,
  writeQueue,
} from './write-queue.ts'

/** The store also reads by itself, in case a notification is lost. */
const LOOK_EVERY_MS = 1_000

/** The caller retries, and finds the next store. */
const MOVES: StoreReply = {
  ...{ ok: false, code: 'STORE_AWAY', retryable: true },
  message: 'the store moves to another node',
}

type StoreWorld = World & Pick<Adapters, 'openDatabase' | 'openLogReader'>

const REAL: StoreWorld = { ...realWorld, openDatabase, openLogReader }

export function storeThread(data: ThreadData, world: StoreWorld = REAL): ThreadParts {
  const { settings } = data
  const kit = makeKit(data, world)
  const { log, clock } = kit
  let database: Database
  let reader: LogReader<MarketEvent>
  let state: StoreState | undefined
  let served: Served
  let keys: Served
  let writes: Served
  let endings: Served
  let stopped = false
  /** True if another node takes over: nothing more is written here. */
  let leaving = false
  const leases = makeLeases(data, kit, world)
  /** Database connections of the partitions that this store writes. */
  const projectors = new Map<number, Database>()
  const markets = makeFollowers<MarketThreadProtocol>(settings, kit.links)
  /** Notified of new trades, so that they need not wait for the next read. */
  const settlements = makeFollowers<SettlementRequests>(settings, kit.links)
  /** Other threads: fronts, which register and revoke keys, and threads that have data written. */
  const clients = makeFollowers<KeyFollowerProtocol>(settings, kit.links)
  /** On a node: notifies when the local copy of the log has grown. */
  const logCopies = makeFollowers<Protocol>(settings, kit.links)
  const marketNames = new Set(
    Array.from({ length: settings.markets.threads }, (_, thread) => marketThreadName(thread)),
  )
  const keyWriter = newApiKeys({
    register: (key, activeMax) => registerApiKey(database, key, activeMax),
    revoke: (id, atMs) => revokeApiKey(database, id, atMs),
  })

  const writer = newWriteQueue((tasks) => runWrites(database, tasks), sharesCommit)

  storeMeters(kit, () => state)

  function tellProjected(market: Channel<MarketThreadProtocol>): void {
    for (const [partition, { projected }] of state?.partitions ?? []) {
      market.tell('Projected', { partition, offset: projected })
    }
  }

  /** One node at a time projects a partition. The others only read its position. */
  async function holdProjectors(): Promise<void> {
    for (let partition = 0; partition < reader.partitions; partition++) {
      await leases.hold(
        `projector/${partition}`,
        (fence) => {
          projectors.set(partition, { ...database, fence })
          look()
        },
        () => projectors.delete(partition),
      )
    }
  }

  function hearWrite(type: string, message: unknown, replyTo: number, client: ReplyChannel): void {
    if (leaving) client.reply(replyTo, MOVES)
    else writes.hear(type, message, replyTo, client)
  }

  function look(): void {
    if (!stopped) served.hear('Tick', {}, 0, undefined)
  }

  return {
    async start() {
      database = await world.openDatabase(databaseUrlOf(settings), { copier: databaseCopier })
      reader = world.openLogReader(settings.data.dir, { form: PACKED })
      state = newStore(reader, {
        claim: (from) => claimLog(database, from),
        ...(isShared(databaseUrlOf(settings))
          ? {
              write: (batch) => project(projectors.get(batch.partition) ?? database, batch),
              shared: {
                isOwn: (partition) => projectors.has(partition),
                read: () => checkpoints(database),
              },
            }
          : { write: makeTurnProjector(database) }),
      })
      served = serveActor<StoreState, StoreProtocol, StoreEvent>({
        behaviour: store,
        clock,
        state,
        say(event) {
          if (event.type === 'TradesWritten') settlements.tell(event.type, {})
          else if (event.type === 'MarketsClosed') {
            const { marketIds } = event
            endings.hear(event.type, { marketIds }, 0, undefined)
          } else markets.tell(event.type, { partition: event.partition, offset: event.offset })
        },
      })
      keys = serveActor<ApiKeysState, ApiKeysProtocol, ApiKeysEvent>({
        behaviour: apiKeys,
        clock,
        state: keyWriter,
        say(event) {
          if (event.type === 'KeysRevoked') clients.tell(event.type, { ids: event.ids })
          else clients.tell(event.type, { key: event.key })
        },
      })
      writes = serveActor<WriteQueueState, WriteQueueProtocol>({
        behaviour: writeQueue,
        clock,
        state: writer,
      })
      endings = serveActor<OrderEndingsState, OrderEndingsProtocol, OrderEndingsEvent>({
        behaviour: orderEndings,
        clock,
        say: ({ marketId, why }) =>
          log.warn({ marketId, why }, 'orders of a closed market stay open in the database'),
        state: newOrderEndings({
          end: (marketId) => endOrders(database, marketId),
          find: (after) => marketsToEnd(database, after),
        }),
      })
      endings.hear('Start', {}, 0, undefined)
      // An unavailable database must not prevent the thread from starting: API keys and others wait for it too.
      if (isShared(databaseUrlOf(settings))) kit.detach(holdProjectors())
      look()
      kit.every(LOOK_EVERY_MS, look)
      log.info({ partitions: reader.partitions }, 'the projection follows the log')
    },
    connect(peer, port) {
      if (peer === SETTLEMENT_THREAD) {
        settlements.add(peer, port, hearWrite)
        return
      }
      if (peer === LOG_COPY_THREAD) {
        logCopies.add(peer, port, (type, message) => served.hear(type, message, 0, undefined))
        return
      }
      if (!marketNames.has(peer)) {
        clients.add(peer, port, (type, message, replyTo, client) =>
          type === 'Write'
            ? hearWrite(type, message, replyTo, client)
            : keys.hear(type, message, replyTo, client),
        )
        return
      }
      const market = markets.add(
        peer,
        port,
        (type, message, replyTo, channel) => served.hear(type, message, replyTo, channel),
        tellProjected,
      )
      // A newly started market thread does not know the position of the database.
      tellProjected(market)
    },
    health: () => (state === undefined ? 'starting' : whyBehind(state)),
    metrics: kit.metrics,
    async drain() {
      // With several machines, orders and the log continue meanwhile; the next store reads them.
      leaving = isNode(settings)
      served.hear(leaving ? 'Leave' : 'Tick', {}, 0, undefined)
      await served.drained()
      // Orders of closed markets continue at the next start.
      endings.hear('Stop', {}, 0, undefined)
      await Promise.all([endings.drained(), keys.drained(), writes.drained()])
    },
    async stop() {
      stopped = true
      kit.quiet()
      markets.close()
      settlements.close()
      clients.close()
      logCopies.close()
      await reader.close()
      await leases.close()
      await closeDatabase(database)
    },
  }
}
