/**
 * The stream of one front thread: all WebSocket connections of clients. Subscriptions are in `channels.ts`, delivery in
 * `delivery.ts`, requests in `requests.ts`.
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
    /**
     * Multiplier for IPv6 /48 networks: a /48 may have this many times the connections and subscriptions of
     * one IP address. Unlimited by default.
     */
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
    /** When the front shuts down, it asks each client to reconnect after a random delay. This is the maximum delay. */
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
   * Publishes a chain event of a market on the `market` channel. The caller passes events in the order of the chain. If
   * it passes a market's last event again, nothing is published. So a source that reconnects may repeat the last event
   * of each market.
   */
  marketHappened(
    marketId: MarketId,
    event: ResolutionUpdate['event'],
    facts: ResolutionFacts,
    atMs: number,
  ): void
  /** Adds a market to the ticker feed of its event, if that feed exists. */
  joinedEvent: Channels<Subscription>['joinedEvent']
  /** Reads the markets of all followed events from the database. Called after messages about new markets were lost. */
  eventsMissed(): Promise<void>
  /** Publishes changed funds of a trader on the `funds` channel. */
  fundsChanged(trader: Address, chainId: number): void
  /**
   * Publishes a new price on the `price` channel of its asset, such as `BTC`. Skips a price that is older than the last
   * published one.
   */
  priced(asset: string, event: StreamPrice): void
  /** Publishes an opened or resolved quick market on the `quick-market` channel of its asset. */
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Ends the authentication of sessions that use one of these keys. */
  revoked(keyIds: readonly string[]): void
  /** Looks up the keys of all sessions again. Called when revocations may have been missed. */
  mayHaveMissed(): void
  /**
   * Sends the current state to the subscribers of feeds of these kinds. Called when events of these kinds
   * were missed.
   */
  missed(kinds: readonly OutsideKind[]): void
  /** Returns the markets that clients follow, or have followed within the last `lingerMs`. */
  watched(): NeededMarkets
  /**
   * Called when followed markets that were idle have become active. Sends snapshots to the clients that wait for these
   * markets.
   */
  woken(): void
  /**
   * Shuts the stream down. Rejects new connections, and asks every client to reconnect later. Each connection is closed
   * when its requests are answered, or immediately with `atOnce`. Then waits at most `deadlineMs` until the market
   * threads have cancelled all orders with cancel on disconnect.
   */
  shutdown(how?: { readonly atOnce?: boolean }): Promise<void>
  figures(): StreamFigures
}

export type StreamPorts = RequestPorts & {
  readonly board: () => MarketBoard
  readonly figures: FiguresBook
  readonly authenticator: Pick<Authenticator, 'identify' | 'confirm'>
  /**
   * Assets that clients can subscribe to before any of their data arrives. Other assets are added with their first
   * data.
   */
  readonly assets?: readonly string[]
  /** Source of traders' funds; undefined if the exchange reserves no funds. */
  readonly funds?: FundsSource | undefined
  /** Makes idle markets active when a client follows them; undefined if the front follows all markets. */
  readonly use?: Pick<PartitionUse, 'needThese'> | undefined
  /**
   * Counts connections and subscriptions per range of IP addresses, on all fronts. By default, counts only those of
   * this front.
   */
  readonly count?: ConnectionCount
  /** Sends the text to every socket of this thread that is subscribed to the topic. */
  readonly publish: (topic: string, text: string) => void
  /**
   * Decides which IP address is served next, for HTTP requests and the stream together. By default the stream has its
   * own queue.
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
     * Reads the markets of one event at a time. If the database is unavailable, the markets of an event are read when
     * the next client subscribes to that event.
     */
    async eventsMissed() {
      try {
        for (const event of channels.followedEvents()) {
          const found = await ports.eventMarkets(event)
          for (const marketId of found?.marketIds ?? []) channels.joinedEvent(event, marketId)
        }
      } catch (error) {
        ports.log.warn(
          { err: error },
          'the markets of events with subscribers cannot be read from the database',
        )
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

/** Returns a rejection if this IP address or its /48 has too many connections. */
function rangeFlaw(
  ip: string,
  count: ConnectionCount,
  { connectionsPerIp, siteTimes = Number.POSITIVE_INFINITY }: StreamSettings,
): Rejection | undefined {
  if (count.of(ip) >= connectionsPerIp) {
    const detail = `${connectionsPerIp} stream connections of this IP address are open, which is the maximum: close one first`
    return reject('RATE_LIMITED', undefined, detail)
  }
  const site = siteOf(ip)
  const siteMax = connectionsPerIp * siteTimes
  if (site === undefined || count.of(site) < siteMax) return undefined
  return reject(
    'RATE_LIMITED',
    undefined,
    `${siteMax} stream connections of this IPv6 /48 network are open, which is the maximum: close one first`,
  )
}
