/**
 * The stream of one front thread: its connections, from the first frame to the last. Subscriptions are in
 * `channels.ts`, delivery in `delivery.ts`, requests in `requests.ts`.
 *
 * Market events come from the board. Chain, price and quick-market events come through `marketHappened`, `priced` and
 * `quickMarket`, one call per event.
 */

import { randomUUID } from 'node:crypto'
import type { Address, MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import { limitedRange, siteOf } from '#http/client-ip.ts'
import type { BoardListener, MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { NeededMarkets, PartitionUse } from '#live/partition-use.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { StreamPrice } from '#protocol/shapes/prices.ts'
import { inTime } from '#runtime/in-time.ts'
import type { OutsideKind } from './chain-breaks.ts'
import type { FundsSource } from './channel-parts.ts'
import { type Channels, makeChannels } from './channels.ts'
import {
  type Connection,
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
import { idOf, isMisread, readFrame } from './frames.ts'
import { makeIntake } from './intake.ts'
import { makeRequests, type RequestPorts } from './requests.ts'
import type { ResolutionFacts, ResolutionUpdate } from './resolution-update.ts'
import { makeSessions } from './sessions.ts'
import type { ChannelLimits } from './topic-registry.ts'
import { frameWeight, MISFIT_WEIGHT } from './weights.ts'

export type StreamSettings = ChannelLimits &
  DeliverySettings & {
    readonly heartbeatMs: number
    readonly connectionsMax: number
    readonly connectionsPerIp: number
    /** Limit of an IPv6 /48 as a multiple of that of one /64; unlimited by default. */
    readonly siteTimes?: number
    /** Maximum sums of subscription weights: per connection, per address and in all. */
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

/** Close codes for clients, besides that of a lagging reader. */
const CLOSE_MALFORMED = 4400
const CLOSE_FLOOD = 4429
const CLOSE_TOO_BIG = 1009
const CLOSE_RESTART = 1012

/** Time for clients to leave after a shutdown notice, and for answers in progress after that. */
const LEAVE_MS = 250
const ANSWERS_MS_MAX = 5_000

/** Malformed frames within the window that end a connection. */
export const MALFORMED_MAX = 100
/** Frames above the rate within the window that end a connection, as a multiple of the rate per second. */
const EXCESS_SECONDS = 10
/**
 * A frame that its address cannot pay for counts as this many frames, because the server still reads and answers it.
 */
const UNPAID_EXCESS = 5
export const WINDOW_MS = 10_000
/** Heartbeats are spread over this many turns of the wheel. */
const SLOTS = 16

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
  /** Admits a new connection from this address, or rejects it. */
  admit(ip: string): SocketData | Rejection
  opened(ws: Socket): void
  heard(ws: Socket, message: ArrayBuffer, isBinary: boolean): void
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
  /** Adds a market to the tickers of its event. */
  joinedEvent: Channels<Subscription>['joinedEvent']
  /** Publishes changed funds of a trader on the `funds` channel. */
  fundsChanged(trader: Address, chainId: number): void
  /** Publishes a new price on the `price` channel of its asset (`BTC`); older ones are skipped. */
  priced(asset: string, event: StreamPrice): void
  /** Publishes an opened or resolved quick market on the `quick-market` channel of its asset. */
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Ends the authentication of sessions with these keys. */
  revoked(keyIds: readonly string[]): void
  /** Revocations may have been missed: the keys of all sessions are looked up again. */
  unheard(): void
  /** Reports that events of these kinds were missed: followers receive the current state. */
  missed(kinds: readonly OutsideKind[]): void
  /** Returns the markets that clients follow, or did a moment ago. */
  watched(): NeededMarkets
  /** Serves clients that wait for markets which are followed now. */
  woken(): void
  /**
   * Asks every client to come back later; admits no others. Each connection closes when its requests are answered,
   * unless the client leaves earlier. Resolves when session orders are cancelled, or the time for that is over.
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
  readonly settings: StreamSettings
}

export function makeStreamHub(ports: StreamPorts): StreamHub {
  const { gateway, settings, clock } = ports
  const connections = new Set<Connection>()
  const count = ports.count ?? makeConnectionCount(makeConnectionCountMemory(1, ''), 0)
  const wheel = Array.from({ length: SLOTS }, () => new Set<Connection>())
  let turn = 0
  let nextSlot = 0
  let ticking = false
  let closing = false
  /** True if connections without open requests are closed. */
  let dismissing = false
  const allGone = Promise.withResolvers<void>()
  let published = 0

  const delivery = makeDelivery({
    ...{ channels: () => channels, gateway, settings, clock, draw: ports.draw },
    isFollowed: (feed) => ports.use?.needThese(marketsOf(feed)) !== false,
  })
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
        for (const sub of feed.topic.members) if (!sub.live) delivery.pump(sub.connection)
      },
    },
  })
  const sessions = makeSessions({
    authenticator: ports.authenticator,
    clock,
    ended: (connection, why) => delivery.answerError(connection, undefined, why),
  })
  const requests = makeRequests(ports, {
    ...{ channels, delivery, sessions, count },
    answered: (connection) => {
      if (dismissing) dismissQuiet(connection)
    },
  })
  const intake = makeIntake({
    handle,
    emptied: (connection) => {
      if (dismissing) dismissQuiet(connection)
    },
  })
  const { answer, answerError, send, end } = delivery
  for (const asset of ports.assets ?? []) channels.knowAsset(asset)

  /** Runs one turn of the wheel: heartbeats for a slot, and timeouts. */
  function tick(): void {
    ticking = connections.size > 0 || channels.lingering() > 0
    if (ticking) clock.after(settings.heartbeatMs / SLOTS, tick)
    turn = (turn + 1) % SLOTS
    const nowMs = clock.nowMs()
    delivery.checkLagging(nowMs)
    sessions.expire()
    for (const connection of wheel[turn]!) {
      if (!delivery.isLagging(connection)) heartbeat(connection, nowMs)
    }
    channels.tidy()
  }

  function heartbeat(connection: Connection, nowMs: number): void {
    let subs = ''
    for (const [name, { live, feed }] of connection.subs) {
      if (!live) continue
      const position = JSON.stringify(channels.shownPosition(feed, feed.topic.last))
      subs += `${subs === '' ? '' : ','}"${name}":${position}`
    }
    send(connection, `{"type":"heartbeat","ts":${nowMs},"subs":{${subs}}}`)
  }

  /** Returns whether the connection may send another frame now. */
  function withinRate(connection: Connection, nowMs: number): boolean {
    const { messagesPerSecond, messagesBurst } = settings
    const elapsedSec = Math.max(0, nowMs - connection.tokensAtMs) / 1_000
    connection.tokens = Math.min(messagesBurst, connection.tokens + elapsedSec * messagesPerSecond)
    connection.tokensAtMs = nowMs
    if (connection.tokens < 1) return false
    connection.tokens--
    return true
  }

  function heard(ws: Socket, message: ArrayBuffer, isBinary: boolean): void {
    const { connection } = ws.getUserData()
    if (connection.doomedAtMs !== undefined) return
    const nowMs = clock.nowMs()
    beginWindow(connection, nowMs)
    if (message.byteLength > settings.payloadBytesMax) {
      const detail = `a frame must be at most ${settings.payloadBytesMax} bytes`
      answerError(connection, undefined, reject('BODY_TOO_LARGE', undefined, detail))
      end(connection, CLOSE_TOO_BIG, 'the frame is too large')
      return
    }
    if (!withinRate(connection, nowMs)) {
      refuse(connection, message, 1)
      return
    }
    const weight = frameWeight(message.byteLength)
    if (ports.draw?.({ cost: 'read', weight }, connection.ip, undefined) === false) {
      refuse(connection, message, UNPAID_EXCESS * weight)
      return
    }
    if (intake.take(connection, message, isBinary)) return
    answerError(connection, idOf(message), reject('OVERLOADED'))
  }

  /** Refuses a frame above the rate limit; closes a connection that keeps sending them. */
  function refuse(connection: Connection, message: ArrayBuffer, excess: number): void {
    answerError(connection, idOf(message), reject('RATE_LIMITED'))
    connection.excess += excess
    if (connection.excess > EXCESS_SECONDS * settings.messagesPerSecond) {
      end(connection, CLOSE_FLOOD, 'too many messages')
    }
  }

  /** Handles a frame that is paid for, and returns the units that it took. */
  function handle(connection: Connection, message: ArrayBuffer, isBinary: boolean): number {
    if (connection.ws === undefined || connection.doomedAtMs !== undefined) return 0
    const units = frameWeight(message.byteLength)
    const read = readFrame(message, isBinary)
    if (!isMisread(read)) return units + requests.act(connection, read)
    const isPaid = ports.draw?.(MISFIT_WEIGHT, connection.ip, undefined) !== false
    answerError(connection, read.id, isPaid ? read.why() : reject('RATE_LIMITED'))
    if (read.malformed && ++connection.malformed > MALFORMED_MAX) {
      end(connection, CLOSE_MALFORMED, 'too many malformed frames')
    }
    return units + MISFIT_WEIGHT.weight
  }

  /** The library answers pings by itself; too many of them end the connection like frames. */
  function pinged(ws: Socket): void {
    const { connection } = ws.getUserData()
    if (connection.doomedAtMs !== undefined) return
    const nowMs = clock.nowMs()
    beginWindow(connection, nowMs)
    if (withinRate(connection, nowMs)) return
    connection.excess++
    if (connection.excess > EXCESS_SECONDS * settings.messagesPerSecond) {
      end(connection, CLOSE_FLOOD, 'too many messages')
    }
  }

  function beginWindow(connection: Connection, nowMs: number): void {
    if (nowMs - connection.windowAtMs < WINDOW_MS) return
    connection.windowAtMs = nowMs
    connection.malformed = 0
    connection.excess = 0
  }

  function dismiss(connection: Connection): void {
    end(connection, CLOSE_RESTART, 'the service restarts')
  }

  function dismissQuiet(connection: Connection): void {
    if (connection.inFlight === 0 && connection.frames.length === 0) dismiss(connection)
  }

  /** Waits until every connection has ended, up to this time. */
  async function untilAllGone(ms: number): Promise<void> {
    if (connections.size > 0) await inTime(allGone.promise, ms)
  }

  return {
    followed: channels.followed,
    loaded: channels.loaded,
    forgotten: channels.forgotten,
    marketHappened: (marketId, event, facts, atMs) =>
      channels.happened(marketId, { event, facts, atMs }),
    joinedEvent: channels.joinedEvent,
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
      if (closing || connections.size >= settings.connectionsMax) return reject('OVERLOADED')
      if (count.of(ip) >= settings.connectionsPerIp) {
        const detail = `${settings.connectionsPerIp} connections of one address are open`
        return reject('RATE_LIMITED', undefined, detail)
      }
      const site = siteOf(ip)
      const siteMax = settings.connectionsPerIp * (settings.siteTimes ?? Number.POSITIVE_INFINITY)
      if (site !== undefined && count.of(site) >= siteMax) {
        return reject('RATE_LIMITED', undefined, `${siteMax} connections of one /48 are open`)
      }
      const nowMs = clock.nowMs()
      const connection: Connection = {
        session: randomUUID(),
        ip,
        ws: undefined,
        principal: undefined,
        subs: new Map(),
        waiting: new Set(),
        lagSinceMs: undefined,
        doomedAtMs: undefined,
        settling: false,
        frames: [],
        subscribed: 0,
        inFlight: 0,
        tokens: settings.messagesBurst,
        tokensAtMs: nowMs,
        malformed: 0,
        excess: 0,
        windowAtMs: nowMs,
        cancelsOnDisconnect: false,
        slot: nextSlot++ % SLOTS,
      }
      return { connection }
    },

    opened(ws) {
      const { connection } = ws.getUserData()
      connection.ws = ws
      connections.add(connection)
      for (const range of rangesOf(connection)) count.add(range, 1)
      wheel[connection.slot]!.add(connection)
      if (!ticking) tick()
      const { session } = connection
      const { heartbeatMs } = settings
      const serverTime = clock.nowMs()
      answer(connection, { type: 'hello', version: 1, session, heartbeatMs, serverTime })
    },

    heard,
    pinged,

    dropped: (ws, message) => delivery.dropped(ws.getUserData().connection, message),
    drained: (ws) => delivery.pump(ws.getUserData().connection),

    closed(ws) {
      const { connection } = ws.getUserData()
      connection.ws = undefined
      if (!connections.delete(connection)) return
      intake.forget(connection)
      for (const sub of [...connection.subs.values()]) requests.drop(sub)
      if (connection.cancelsOnDisconnect) ports.held?.end(connection.session)
      delivery.forget(connection)
      sessions.forget(connection)
      wheel[connection.slot]!.delete(connection)
      for (const range of rangesOf(connection)) count.add(range, -1)
      if (closing && connections.size === 0) allGone.resolve()
    },

    revoked: sessions.revoked,
    unheard: sessions.unheard,

    async shutdown({ atOnce = false } = {}) {
      closing = true
      for (const connection of connections) {
        // Each at a different time, so that they do not all return at once.
        const reconnectInMs = Math.floor(Math.random() * settings.reconnectSpreadMs)
        send(connection, `{"type":"shutdown","reconnectInMs":${reconnectInMs}}`)
      }
      if (!atOnce) {
        // Frames sent before the client received the notice are answered too.
        await untilAllGone(LEAVE_MS)
        dismissing = true
        for (const connection of connections) dismissQuiet(connection)
        await untilAllGone(ANSWERS_MS_MAX)
      }
      for (const connection of connections) dismiss(connection)
      const late = new Promise<void>((resolve) => void clock.after(settings.deadlineMs, resolve))
      await Promise.race([ports.held?.settled(), late])
    },

    figures: () => ({
      connections: connections.size,
      subscriptions: requests.subscriptions(),
      topics: channels.topics(),
      published,
      ...delivery.figures(),
    }),
  }
}
