/** The store thread: the projector on the logs, and the only connection that writes. */

import { Gauge, Registry } from 'prom-client'
import {
  type ApiKeysEvent,
  type ApiKeysProtocol,
  type ApiKeysState,
  apiKeys,
  type KeyFollowerProtocol,
  newApiKeys,
} from '#actors/api-keys.ts'
import { type ClerkProtocol, type ClerkState, clerk, newClerk } from '#actors/clerk.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import { PACKED } from '#actors/packed-event.ts'
import type { SettlementProtocol } from '#actors/settlement/settlement.ts'
import {
  newStore,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
  whyBehind,
} from '#actors/store.ts'
import { makeLog } from '#config/logging.ts'
import { channelOptions, databaseUrlOf, type ThreadData } from '#config/thread-data.ts'
import { marketThreadName, SETTLEMENT_THREAD } from '#config/topology.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { registerApiKey, revokeApiKey } from '#store/api-keys.ts'
import { claimLog } from '#store/checkpoints.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { project } from '#store/project.ts'
import { runWrites, sharesCommit } from '#store/writes.ts'

/** The store also looks by itself, in case nobody told it. */
const LOOK_EVERY_MS = 1_000
const MAILBOX_MAX = 10_000

export function storeThread(data: ThreadData): ThreadParts {
  const { name, settings, isTerminal } = data
  const log = makeLog(settings.log, name, isTerminal)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name })

  let database: Database
  let reader: LogReader<MarketEvent>
  let state: StoreState
  let served: Served
  let keys: Served
  let writes: Served
  let lookTimer: NodeJS.Timeout
  let stopped = false
  const channels = new Set<Channel<MarketThreadProtocol>>()

  /** Told of new trades, so that they do not wait for its next look. */
  let settlement: Channel<SettlementProtocol> | undefined

  /** Everybody else: fronts, which have keys registered and revoked here, and who has things written. */
  const clients = new Set<Channel<KeyFollowerProtocol>>()
  const marketNames = new Set(
    Array.from({ length: settings.markets.threads }, (_, thread) => marketThreadName(thread)),
  )
  const keyWriter = newApiKeys({
    register: (key, activeMax) => registerApiKey(database, key, activeMax),
    revoke: (id, atMs) => revokeApiKey(database, id, atMs),
  })

  const writer = newClerk((tasks) => runWrites(database, tasks), sharesCommit)

  function behind(): number {
    let events = 0
    for (const { appended, projected } of state.partitions.values()) events += appended - projected
    return events
  }

  return {
    async start() {
      database = await openDatabase(databaseUrlOf(settings))
      reader = openLogReader(settings.data.dir, { form: PACKED })
      state = newStore(reader, {
        claim: (from) => claimLog(database, from),
        write: (batch) => project(database, batch),
      })
      served = serve<StoreState, StoreProtocol, StoreEvent>({
        behaviour: store,
        select: () => ({ state }),
        clock: systemClock,
        mailboxMax: MAILBOX_MAX,
        batchMax: MAILBOX_MAX,
        full: reject('OVERLOADED'),
        say(said) {
          for (const event of said) {
            if (event.type === 'TradesWritten') settlement?.tell('TradesWritten', {})
            else {
              const { partition, offset } = event
              for (const channel of channels) channel.tell('Projected', { partition, offset })
            }
          }
        },
      })
      keys = serve<ApiKeysState, ApiKeysProtocol, ApiKeysEvent>({
        behaviour: apiKeys,
        select: () => ({ state: keyWriter }),
        clock: systemClock,
        mailboxMax: MAILBOX_MAX,
        batchMax: MAILBOX_MAX,
        full: reject('OVERLOADED'),
        say(said) {
          for (const event of said) {
            for (const client of clients) client.tell('KeysRevoked', event)
          }
        },
      })
      writes = serve<ClerkState, ClerkProtocol>({
        behaviour: clerk,
        select: () => ({ state: writer }),
        clock: systemClock,
        mailboxMax: MAILBOX_MAX,
        batchMax: MAILBOX_MAX,
        full: reject('OVERLOADED'),
      })
      new Gauge({
        name: 'sibyl_projection_behind_events',
        help: 'Events that are durable and not yet in the database',
        registers: [registry],
        collect() {
          this.set(behind())
        },
      })
      const look = () => {
        if (!stopped) served.hear('Tick', {}, 0, undefined)
      }
      look()
      lookTimer = setInterval(look, LOOK_EVERY_MS)
      log.info({ partitions: reader.partitions }, 'the projection follows the log')
    },
    connect(peer, port) {
      if (peer === SETTLEMENT_THREAD) {
        const channel: Channel<SettlementProtocol> = new Channel(port, channelOptions(settings), {
          heard: (type, message, replyTo) => writes.hear(type, message, replyTo, channel),
        })
        settlement = channel
        return
      }
      if (!marketNames.has(peer)) {
        const client: Channel<KeyFollowerProtocol> = new Channel<KeyFollowerProtocol>(
          port,
          channelOptions(settings),
          {
            heard: (type, message, replyTo) =>
              (type === 'Write' ? writes : keys).hear(type, message, replyTo, client),
            closed: () => clients.delete(client),
          },
        )
        clients.add(client)
        return
      }
      const channel = new Channel<MarketThreadProtocol>(port, channelOptions(settings), {
        heard: (type, message, replyTo) => served.hear(type, message, replyTo, channel),
        closed: () => channels.delete(channel),
      })
      channels.add(channel)
      // A market thread that has just started does not know how far the database is.
      for (const [partition, { projected }] of state.partitions) {
        channel.tell('Projected', { partition, offset: projected })
      }
    },
    health: () => whyBehind(state),
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      served.hear('Tick', {}, 0, undefined)
      await Promise.all([served.drained(), keys.drained(), writes.drained()])
    },
    async stop() {
      stopped = true
      clearInterval(lookTimer)
      for (const channel of [...channels, ...clients]) channel.close()
      settlement?.close()
      await reader.close()
      await closeDatabase(database)
    },
  }
}
