/** The links of the store thread: to market threads, to settlement, and to the threads whose data it writes. */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import { LOG_COPY_THREAD, marketThreadName, SETTLEMENT_THREAD } from '#config/topology.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { KeyFollowerProtocol, LogReaderProtocol, TradeTrace } from '#protocol/projector.ts'
import type { SettlementRequests, TracedTradesProtocol } from '#protocol/settlement.ts'
import type { Protocol } from '#runtime/actor.ts'
import type { Channel } from '#runtime/channel.ts'
import type { ReplyChannel } from '#runtime/serve.ts'
import { makeFollowers, type ThreadContext } from '#services/kit/kit.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import type { StoreActors } from './store-actors.ts'

/** Answer of a store that is being replaced. The caller retries, and reaches the next store. */
const MOVES: StoreReply = {
  ...{ ok: false, code: 'STORE_AWAY', retryable: true },
  message: 'the store is moving to another node: retry shortly',
}

export function makeStoreLinks(
  settings: Settings,
  kit: Pick<ThreadContext, 'links' | 'loop'>,
  {
    actors,
    isLeaving,
    received,
  }: {
    /** Returns the actors; undefined before the start. */
    readonly actors: () => StoreActors | undefined
    readonly isLeaving: () => boolean
    /** Called with the traces of trades that are durable. */
    readonly received: (traces: readonly TradeTrace[]) => void
  },
) {
  const markets = makeFollowers<MarketThreadProtocol>(settings, kit)
  /** Settlement threads, which are notified of new trades so that they need not wait for their next read. */
  const settlements = makeFollowers<SettlementRequests & TracedTradesProtocol>(settings, kit)
  /** All other linked threads: fronts, which register and revoke keys, and threads whose data this store writes. */
  const clients = makeFollowers<KeyFollowerProtocol>(settings, kit)
  /** In a cluster, the log-copy thread, which notifies this thread when the local copy of the log has grown. */
  const logCopies = makeFollowers<Protocol>(settings, kit)
  const marketNames = new Set(
    Array.from({ length: settings.markets.threads }, (_, thread) => marketThreadName(thread)),
  )

  function sendProjected(market: Channel<MarketThreadProtocol>): void {
    for (const [partition, { projected }] of actors()?.state.partitions ?? []) {
      market.tell('Projected', { partition, offset: projected })
    }
  }

  function handleWrite(
    type: string,
    message: unknown,
    replyTo: number,
    client: ReplyChannel,
  ): void {
    if (isLeaving()) client.reply(replyTo, MOVES)
    else actors()?.writes.hear(type, message, replyTo, client)
  }

  function handleLog(type: string, message: unknown, replyTo: number, from?: ReplyChannel): void {
    const { traces } = message as Partial<LogReaderProtocol['Appended']['takes']>
    if (traces !== undefined) {
      received(traces)
      settlements.tell('TradesTraced', { traces })
    }
    actors()?.projector.hear(type, message, replyTo, from)
  }

  function connect(peer: string, port: MessagePort): void {
    if (peer === SETTLEMENT_THREAD) {
      settlements.add(peer, port, handleWrite)
      return
    }
    if (peer === LOG_COPY_THREAD) {
      logCopies.add(peer, port, (type, message) => handleLog(type, message, 0))
      return
    }
    if (!marketNames.has(peer)) {
      clients.add(peer, port, (type, message, replyTo, client) =>
        type === 'Write'
          ? handleWrite(type, message, replyTo, client)
          : actors()?.keys.hear(type, message, replyTo, client),
      )
      return
    }
    const market = markets.add(peer, port, handleLog, sendProjected)
    // A market thread that has just started does not know up to which offset the database has its events.
    sendProjected(market)
  }

  return {
    ...{ markets, settlements, clients, connect },
    close() {
      for (const each of [markets, settlements, clients, logCopies]) each.close()
    },
  }
}
