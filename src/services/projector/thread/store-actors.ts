/** The actors of the store thread: the projector, API keys, writes for other services, and endings of orders. */

import type { MarketEvent } from '#domain/market-event.ts'
import type { LogReader } from '#log/event-log.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { KeyFollowerProtocol } from '#protocol/projector.ts'
import type { SettlementRequests } from '#protocol/settlement.ts'
import type { Protocol } from '#runtime/actor.ts'
import { type makeFollowers, serveActor, type ThreadContext } from '#services/kit/kit.ts'
import type { Database } from '#store/engine/database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { endOrders, marketsToEnd } from '#store/projection/end-orders.ts'
import { project } from '#store/projection/project.ts'
import { makeTurnProjector } from '#store/projection/project-turn.ts'
import { registerApiKey, revokeApiKey } from '#store/writes/api-keys.ts'
import { sumAllEventVolumes, sumEventVolumes } from '#store/writes/event-volumes.ts'
import { runWrites, sharesCommit } from '#store/writes/writes.ts'
import {
  type ApiKeysEvent,
  type ApiKeysProtocol,
  type ApiKeysState,
  apiKeys,
  newApiKeys,
} from '../api-keys.ts'
import { makeEventVolumes } from '../event-volumes.ts'
import {
  newOrderEndings,
  type OrderEndingsEvent,
  type OrderEndingsProtocol,
  type OrderEndingsState,
  orderEndings,
} from '../order-endings.ts'
import {
  newStore,
  type StoreDatabase,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
} from '../projector.ts'
import {
  newWriteQueue,
  type WriteQueueProtocol,
  type WriteQueueState,
  writeQueue,
} from '../write-queue.ts'

type Notified<P extends Protocol> = Pick<ReturnType<typeof makeFollowers<P>>, 'tell'>

type ActorLinks = {
  /** The database connection for each partition; undefined if only this process writes the database. */
  readonly projectors: ReadonlyMap<number, Database> | undefined
  readonly markets: Notified<MarketThreadProtocol>
  readonly settlements: Notified<SettlementRequests>
  readonly clients: Notified<KeyFollowerProtocol>
  /** Called when the database has all events of a partition up to an offset. */
  readonly projected: (partition: number, offset: number) => void
}

export type StoreActors = ReturnType<typeof startActors>

export function startActors(
  { database, reader }: { readonly database: Database; readonly reader: LogReader<MarketEvent> },
  { log, clock, loop }: Pick<ThreadContext, 'log' | 'clock' | 'loop'>,
  { projectors, markets, settlements, clients, projected }: ActorLinks,
) {
  const volumes = makeEventVolumes({
    sum: (marketIds) => sumEventVolumes(database, marketIds),
    sumAll: () => sumAllEventVolumes(database),
    failed: (why) =>
      log.warn(
        { why },
        'the trading volumes of events (groups of markets) could not be read from the database',
      ),
  })
  const written =
    (write: StoreDatabase['write']): StoreDatabase['write'] =>
    async (batch) => {
      const end = await write(batch)
      volumes.written(batch)
      return end
    }
  const state = newStore(reader, {
    claim: (from) => claimLog(database, from),
    ...(projectors !== undefined
      ? {
          write: written((batch) => project(projectors.get(batch.partition) ?? database, batch)),
          shared: {
            isOwn: (partition) => projectors.has(partition),
            read: () => checkpoints(database),
          },
        }
      : { write: written(makeTurnProjector(database)) }),
  })
  const projector = serveActor<StoreState, StoreProtocol, StoreEvent>({
    behaviour: store,
    clock,
    loop,
    state,
    say(event) {
      if (event.type === 'TradesWritten') settlements.tell(event.type, {})
      else if (event.type === 'MarketsClosed') {
        const { marketIds } = event
        endings.hear(event.type, { marketIds }, 0, undefined)
      } else {
        const { partition, offset } = event
        projected(partition, offset)
        markets.tell(event.type, { partition, offset })
      }
    },
  })
  const keys = serveActor<ApiKeysState, ApiKeysProtocol, ApiKeysEvent>({
    behaviour: apiKeys,
    clock,
    loop,
    state: newApiKeys({
      register: (key, activeMax) => registerApiKey(database, key, activeMax),
      revoke: (id, atMs) => revokeApiKey(database, id, atMs),
    }),
    say(event) {
      if (event.type === 'KeysRevoked') clients.tell(event.type, { ids: event.ids })
      else clients.tell(event.type, { key: event.key })
    },
  })
  const writes = serveActor<WriteQueueState, WriteQueueProtocol>({
    behaviour: writeQueue,
    clock,
    loop,
    state: newWriteQueue((tasks) => runWrites(database, tasks), sharesCommit),
  })
  const endings = serveActor<OrderEndingsState, OrderEndingsProtocol, OrderEndingsEvent>({
    behaviour: orderEndings,
    clock,
    loop,
    say: ({ marketId, why }) =>
      log.warn(
        { marketId, why },
        'the database refused a statement, so it still has open orders of a closed market',
      ),
    state: newOrderEndings({
      end: (marketId) => endOrders(database, marketId),
      find: (after) => marketsToEnd(database, after),
    }),
  })
  return { state, projector, keys, writes, endings, volumes }
}
