/**
 * The stream of one front thread: its connections, from the first frame to the last. Subscriptions are in
 * `channels.ts`, delivery in `delivery.ts`, requests in `requests.ts`.
 *
 * Market events come from the board. Chain, price and quick-market events come through `marketHappened`, `priced` and
 * `quickMarket`, one call per event.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import { limitedRange, siteOf } from '#http/client-ip.ts'
import { type FairTurns, makeFairTurns } from '#http/fair-turns.ts'
import type { BoardListener, MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { NeededMarkets, PartitionUse } from '#live/partition-use.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { StreamPrice } from '#protocol/shapes/prices.ts'
import type { OutsideKind } from './chain-breaks.ts'
import type { FundsSource } from './channel-parts.ts'
import { type Channels, makeChannels } from './channels.ts'
import {
  type Connection,
  newConnection,
  rangesOf,
  type Socket,
  type SocketData,
  type Subscription,
} from './connection.ts'
import {
  type ConnectionCount,
  makeConnectionCount,
  makeConnectionCountMemory,
} from './connection-count.ts'
import { type DeliverySettings, makeDelivery } from './delivery.ts'
import { marketsOf } from './feeds.ts'
import { makeFrameGate } from './frame-gate.ts'
import { makeHeartbeats } from './heartbeats.ts'
import { makeLeaving } from './leaving.ts'
import { makePumpTurns } from './pump-turns.ts'
import type { RequestPorts } from './request-ports.ts'
import { makeRequests } from './requests.ts'
import type { ResolutionFacts, ResolutionUpdate } from './resolution-update.ts'
import { makeSessions } from './sessions.ts'
import type { ChannelLimits } from './topic-registry.ts'

export type StreamSettings = ChannelLimits &
  DeliverySettings & {
    readonly heartbeatMs: number
    readonly connectionsMax: number
    readonly connectionsPerIp: number
    /** Limit of an IPv6 /48 as a multiple of that of one /64; unlimited by default. */
    readonly siteTimes?: number
    /** Maximum total weight of subscriptions: per connection, per range of IP addresses, and of all clients. */
    readonly subscriptionsMax: number
    readonly subscriptionsPerIp: number
    readonly subscriptionsTotal: number
    readonly messagesPerSecond: number
    readonly messagesBurst: number
    readonly payloadBytesMax: number
    readonly idleTimeoutSec: number
    /** Maximum number of unanswered requests per connection. */
    readonly requestsInFlightMax: number
    /** After a shutdown, clients are asked to reconnect within this time. */
    readonly reconnectSpreadMs: number
  }

export type StreamFigures = {
  readonly connections: number
  readonly subscriptions: number
  readonly topics: number
  readonly lagging: number
  readonly published: number
  readonly dropped: number
  readonly closedLagging: number
}

/** Interface of the stream for the front. */
export type StreamHub = BoardListener & {
  /** Admits a new connection from this IP address, or rejects it. */
  admit(ip: string): SocketData | Rejection
  opened(ws: Socket): void
  received(ws: Socket, message: ArrayBuffer, isBinary: boolean): void
  pinged(ws: Socket): void
  dropped(ws: Socket, message: ArrayBuffer): void
  drained(ws: Socket): void
  closed(ws: Socket): void
  /**
   * Publishes a chain event of a market on the `market` channel. Called once per event, in the order of the chain.
   * Repeating the last one changes nothing, so a source that was away may repeat the state of each market.
   */
  marketHappened(
    marketId: MarketId,
    event: ResolutionUpdate['event'],
    facts: ResolutionFacts,
    atMs: number,
  ): void
  /** Adds a market to the tickers of its event, for their followers. */
  joinedEvent: Channels<Subscription>['joinedEvent']
  /** Reads the markets of followed events again, after messages about them were lost. */
  eventsMissed(): Promise<void>
  /** Publishes changed funds of a trader on the `funds` channel. */
  fundsChanged(trader: Address, chainId: number): void
  /** Publishes a new price on the `price` channel of its asset (`BTC`); older ones are skipped. */
  priced(asset: string, event: StreamPrice): void
  /** Publishes an opened or resolved quick market on the `quick-market` channel of its asset. */
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Ends the authentication of sessions with these keys. */
  revoked(keyIds: readonly string[]): void
  /** Revocations may have been missed: the keys of all sessions are looked up again. */
  mayHaveMissed(): void
  /** Reports that events of these kinds were missed: followers receive the current state. */
  missed(kinds: readonly OutsideKind[]): void
  /** Returns the markets that clients follow, or did a moment ago. */
  watched(): NeededMarkets
  /** Called when idle markets have become followed: serves the clients that wait for them. */
  woken(): void
  /**
   * Asks every client to reconnect later, and admits no others. Each connection closes when its requests are answered,
   * unless the client leaves earlier. Resolves when session orders are cancelled, or after the maximum time for that.
   * `atOnce`: closes without waiting for answers.
   */
  shutdown(how?: { readonly atOnce?: boolean }): Promise<void>
  figures(): StreamFigures
}

export type StreamPorts = RequestPorts & {
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly authenticator: Pick<Authenticator, 'identify' | 'confirm'>
  /** Assets that can be subscribed to before any data arrives; others are added with their data. */
  readonly assets?: readonly string[]
  /** Source of traders' funds; undefined if nothing is reserved. */
  readonly funds?: FundsSource | undefined
  /** Followed markets; undefined if all are. */
  readonly use?: Pick<PartitionUse, 'needThese'> | undefined
  /** Streams of each range in all fronts; by default only those of this front are counted. */
  readonly count?: ConnectionCount
  /** Sends to every socket of this thread in the topic. */
  readonly publish: (topic: string, text: string) => void
  /**
   * Decides which IP address is served next, together with the HTTP requests of this front; by default the stream
   * decides on its own.
   */
  readonly turns?: FairTurns
  readonly settings: StreamSettings
}

export function makeStreamHub(ports: StreamPorts): StreamHub {
  const { settings, clock } = ports
  const connections = new Set<Connection>()
  const count = ports.count ?? makeConnectionCount(makeConnectionCountMemory(1, ''), 0)
  const parts = makeParts(ports, connections, count)
  const { delivery, channels, sessions, requests, gate, leaving, heartbeats } = parts
  let admitted = 0
  for (const asset of ports.assets ?? []) channels.knowAsset(asset)

  return {
    followed: channels.followed,
    loaded: channels.loaded,
    forgotten: channels.forgotten,
    marketHappened: (marketId, event, facts, atMs) =>
      channels.happened(marketId, { event, facts, atMs }),
    joinedEvent: channels.joinedEvent,
    /**
     * Reads one event at a time. If the database is unavailable, the next subscriber of an event causes another
     * read.
     */
    async eventsMissed() {
      try {
        for (const event of channels.followedEvents()) {
          const found = await ports.eventMarkets(event)
          for (const marketId of found?.marketIds ?? []) channels.joinedEvent(event, marketId)
        }
      } catch (error) {
        ports.log.warn({ err: error }, 'the markets of followed events cannot be read')
      }
    },
    fundsChanged: channels.fundsChanged,
    missed: channels.missed,
    watched: channels.watched,
    woken() {
      channels.breakChains()
      for (const connection of connections) {
        if (connection.waiting.size > 0) delivery.pump(connection)
      }
    },
    priced: channels.priced,
    quickMarket: channels.quickMarket,

    admit(peer) {
      const ip = limitedRange(peer)
      if (leaving.hasBegun() || connections.size >= settings.connectionsMax) {
        return reject('OVERLOADED')
      }
      const tooMany = rangeFlaw(ip, count, settings)
      if (tooMany !== undefined) return tooMany
      return { connection: newConnection(ip, admitted++, clock.nowMs(), settings) }
    },

    opened(ws) {
      const { connection } = ws.getUserData()
      connection.ws = ws
      connections.add(connection)
      for (const range of rangesOf(connection)) count.add(range, 1)
      heartbeats.begin(connection)
      const { session } = connection
      const { heartbeatMs } = settings
      const serverTime = clock.nowMs()
      delivery.answer(connection, { type: 'hello', version: 1, session, heartbeatMs, serverTime })
    },

    received: gate.received,
    pinged: gate.pinged,

    dropped: (ws, message) => delivery.dropped(ws.getUserData().connection, message),
    drained: (ws) => delivery.pump(ws.getUserData().connection),

    closed(ws) {
      const { connection } = ws.getUserData()
      connection.ws = undefined
      if (!connections.delete(connection)) return
      gate.forget(connection)
      for (const sub of [...connection.subs.values()]) requests.drop(sub)
      if (connection.cancelsOnDisconnect) ports.held?.end(connection.session)
      delivery.forget(connection)
      sessions.forget(connection)
      heartbeats.end(connection)
      for (const range of rangesOf(connection)) count.add(range, -1)
      leaving.left()
    },

    revoked: sessions.revoked,
    mayHaveMissed: sessions.mayHaveMissed,

    shutdown: leaving.shutdown,

    figures: () => ({
      connections: connections.size,
      subscriptions: requests.subscriptions(),
      topics: channels.topics(),
      published: parts.published(),
      ...delivery.figures(),
    }),
  }
}

/** Makes the parts of the stream; each part gets only the other parts that it needs. */
function makeParts(
  ports: StreamPorts,
  connections: ReadonlySet<Connection>,
  count: ConnectionCount,
) {
  const { gateway, settings, clock } = ports
  let published = 0
  const turns = ports.turns ?? makeFairTurns()
  const delivery = makeDelivery({
    ...{ channels: () => channels, gateway, settings, clock, draw: ports.draw },
    isFollowed: (feed) => ports.use?.needThese(marketsOf(feed)) !== false,
  })
  const pumpInTurn = makePumpTurns({ turns, pump: delivery.pump })
  const channels = makeChannels<Subscription>({
    board: ports.board,
    figures: ports.figures,
    funds: ports.funds,
    limits: settings,
    clock,
    hooks: {
      publish(topic, text) {
        published++
        ports.publish(topic, text)
      },
      broken: delivery.startOver,
      flushed(feed) {
        for (const sub of feed.topic.members) if (!sub.live) pumpInTurn(sub.connection)
      },
    },
  })
  const sessions = makeSessions({
    authenticator: ports.authenticator,
    clock,
    ended: (connection, why) => delivery.answerError(connection, undefined, why),
  })
  const leaving = makeLeaving(ports, { connections, delivery })
  const requests = makeRequests(ports, {
    ...{ channels, delivery, sessions, count },
    answered: leaving.quiet,
  })
  const gate = makeFrameGate(
    { ...ports, turns },
    {
      ...{ delivery, act: requests.act },
      emptied: leaving.quiet,
    },
  )
  const heartbeats = makeHeartbeats(ports, {
    ...{ connections, channels, delivery },
    turned: sessions.expire,
  })
  return {
    ...{ delivery, channels, sessions, requests, gate, leaving, heartbeats },
    published: () => published,
  }
}

/** Returns why no further connection of this range of IP addresses is admitted. */
function rangeFlaw(
  ip: string,
  count: ConnectionCount,
  { connectionsPerIp, siteTimes = Number.POSITIVE_INFINITY }: StreamSettings,
): Rejection | undefined {
  if (count.of(ip) >= connectionsPerIp) {
    const detail = `${connectionsPerIp} connections of one address are open`
    return reject('RATE_LIMITED', undefined, detail)
  }
  const site = siteOf(ip)
  const siteMax = connectionsPerIp * siteTimes
  if (site === undefined || count.of(site) < siteMax) return undefined
  return reject('RATE_LIMITED', undefined, `one IPv6 /48 may have at most ${siteMax} connections`)
}
