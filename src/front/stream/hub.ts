/**
 * The stream of one front thread: its connections, what they follow, and what each of them is owed.
 *
 * A subscription is either live, its socket in the topic of uWebSockets.js, or it waits for a
 * snapshot or a replay. It becomes live and gets that in the same turn, so nothing falls in between.
 * Waiting ones are served one after another while little is buffered for their socket: memory per
 * connection stays bounded, however much it follows and however slowly it reads.
 *
 * When the library drops a message because a socket has too much buffered, nobody knows what else it
 * dropped. So everything that connection follows goes back to waiting, and is told and snapshotted
 * anew once the socket has drained. Nothing here ever waits for a reader.
 *
 * What markets say comes by the board. What the chain, the prices and the quick markets say comes by
 * `marketHappened`, `priced` and `quickMarket`, one call per event.
 */

import { randomUUID } from 'node:crypto'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { PriceEvent, QuickMarketEvent } from '../asset-shapes.ts'
import type { Authenticator } from '../auth.ts'
import { limitedRange } from '../client-ip.ts'
import { errorBody, sentenceOf } from '../errors.ts'
import type { BoardListener, MarketBoard } from '../market-board.ts'
import type { MarketGateway } from '../market-gateway.ts'
import type { OrderDesk } from '../order-desk.ts'
import { acceptedBody } from '../order-shapes.ts'
import type { Log } from '../pipeline.ts'
import type { Principal } from '../route.ts'
import { makeChannels } from './channels.ts'
import type { Connection, Socket, SocketData, Subscription } from './connection.ts'
import type { Feed } from './feeds.ts'
import { type FrameId, isMisread, type Request, readFrame } from './frames.ts'
import type { HeldOrders } from './held-orders.ts'
import type { Happening, ResolutionFacts } from './market-channel.ts'
import type { ChannelLimits } from './shelf.ts'

export type StreamSettings = ChannelLimits & {
  readonly heartbeatMs: number
  readonly connectionsMax: number
  readonly connectionsPerIp: number
  readonly subscriptionsMax: number
  readonly messagesPerSecond: number
  readonly messagesBurst: number
  readonly payloadBytesMax: number
  readonly idleTimeoutSec: number
  /** Bytes that may wait for one socket; what comes on top of them is dropped. */
  readonly bufferBytesMax: number
  /** How long a reader may lag before it is closed. */
  readonly lagMsMax: number
  /** Requests of one connection that wait for an answer at once. */
  readonly requestsInFlightMax: number
  /** Clients are asked to come back within this time after a shutdown. */
  readonly reconnectSpreadMs: number
  readonly deadlineMs: number
}

/** Close codes that a client can meet. */
export const CLOSE_LAGGING = 4008
export const CLOSE_MALFORMED = 4400
export const CLOSE_FLOOD = 4429
export const CLOSE_TOO_BIG = 1009
export const CLOSE_RESTART = 1012

/** Malformed frames within the window that end a connection. */
const MALFORMED_MAX = 100
/** Frames over the rate within the window that end a connection, in seconds' worth of the rate. */
const EXCESS_SECONDS = 10
const WINDOW_MS = 10_000
/** Heartbeats are spread over so many turns of the wheel. */
const SLOTS = 16
/** Questions for open orders that are under way at once. */
const ASKS_MAX = 32
const ASK_AGAIN_MS = 250

export type StreamFigures = {
  readonly connections: number
  readonly subscriptions: number
  readonly topics: number
  readonly lagging: number
  readonly published: number
  readonly dropped: number
  readonly closedLagging: number
}

/** What the front's route and composition need of the stream. */
export type StreamHub = BoardListener & {
  /** A new connection from this address, or why there cannot be one. */
  admit(ip: string): SocketData | Rejection
  opened(ws: Socket): void
  heard(ws: Socket, message: ArrayBuffer, isBinary: boolean): void
  dropped(ws: Socket, message: ArrayBuffer): void
  drained(ws: Socket): void
  closed(ws: Socket): void
  /**
   * What becomes of a market on chain, told to whoever follows the `market` channel. Call it once per
   * event, in the order of the chain; the last one told again changes nothing, so a source that was
   * away may simply repeat where each market stands.
   */
  marketHappened(
    marketId: MarketId,
    event: Happening['event'],
    facts: ResolutionFacts,
    atMs: number,
  ): void
  /** A new price, told on the `price` channel of its asset (`BTC`); an older one is passed over. */
  priced(asset: string, event: PriceEvent): void
  /** A quick market opened or was resolved, told on the `quick-market` channel of its asset. */
  quickMarket(asset: string, event: QuickMarketEvent): void
  /** Sessions of these keys are not authenticated any more. */
  revoked(keyIds: readonly string[]): void
  /**
   * Tells everybody to come back later and closes; nobody is admitted from now on. Done when the
   * orders that go with their session are cancelled, or nobody can wait for that any longer.
   */
  shutdown(): Promise<void>
  figures(): StreamFigures
}

/** Who is asked about an order right before its market is, and told when that refused it. */
export type PlaceWatch = {
  readonly before: (order: VerifiedOrder) => Promise<Rejection | undefined>
  readonly refused: (order: VerifiedOrder) => void
}

export type StreamParts = {
  readonly board: () => MarketBoard
  readonly gateway: Pick<MarketGateway, 'openOrders' | 'cancel'>
  readonly desk: Pick<OrderDesk, 'place'>
  /** Places orders that go with their session; without it nobody can ask for that. */
  readonly holding?: {
    readonly orders: HeldOrders
    readonly deskWith: (watch: PlaceWatch) => Pick<OrderDesk, 'place'>
  }
  readonly authenticator: Pick<Authenticator, 'identify'>
  /** Assets that can be followed before anything is told of them; whatever is told of counts, too. */
  readonly assets?: readonly string[]
  /** Whether orders need an authenticated session. */
  readonly bearer: boolean
  /** Draws what a write costs; false when there is nothing left to draw from. */
  readonly drawWrite?: (ip: string, principal: Principal | undefined) => boolean
  /** Sends to every socket of this thread in the topic. */
  readonly publish: (topic: string, text: string) => void
  readonly settings: StreamSettings
  readonly clock: Clock
  readonly log: Log
}

export function makeStreamHub(parts: StreamParts): StreamHub {
  const { gateway, desk, settings, clock, log } = parts
  const connections = new Set<Connection>()
  const perIp = new Map<string, number>()
  const lagging = new Set<Connection>()
  const wheel = Array.from({ length: SLOTS }, () => new Set<Connection>())
  const lowWaterBytes = Math.floor(settings.bufferBytesMax / 4)
  const asks: Subscription[] = []
  let asking = 0
  let turn = 0
  let nextSlot = 0
  let ticking = false
  let closing = false
  let published = 0
  let droppedCount = 0
  let closedLagging = 0
  let subscriptions = 0

  const channels = makeChannels<Subscription>({
    board: parts.board,
    limits: settings,
    clock,
    hooks: {
      publish(topic, text) {
        published++
        parts.publish(topic, text)
      },
      broken: startOver,
      flushed(feed) {
        for (const sub of feed.topic.members) if (!sub.live) pump(sub.connection)
      },
    },
  })

  for (const asset of parts.assets ?? []) channels.knowAsset(asset)

  /** Everybody who follows the feed needs a new snapshot. */
  function startOver(feed: Feed<Subscription>): void {
    for (const sub of feed.topic.members) {
      wait(sub)
      sub.since = undefined
      sub.taken = undefined
      sub.reset = true
      pump(sub.connection)
    }
  }

  function wait(sub: Subscription): void {
    if (sub.live) sub.connection.ws?.unsubscribe(sub.feed.topic.name)
    sub.live = false
    sub.connection.waiting.add(sub)
  }

  /** Serves what waits, as long as the socket takes it. */
  function pump(connection: Connection): void {
    const { ws, waiting } = connection
    if (ws === undefined || connection.settling) return
    if (connection.doomedAtMs !== undefined) {
      dismiss(connection)
      return
    }
    for (const sub of waiting) {
      if (ws.getBufferedAmount() > lowWaterBytes) return
      serve(ws, sub)
      // Serving may have found that the reader is too slow, or even closed it.
      if (connection.settling || connection.ws === undefined) return
    }
    if (connection.lagSinceMs === undefined) return
    for (const sub of waiting) if (sub.lagged) return
    connection.lagSinceMs = undefined
    lagging.delete(connection)
  }

  /** Makes a subscription live, unless what it needs for that is still to come. */
  function serve(ws: Socket, sub: Subscription): void {
    const { feed, connection } = sub
    const { topic } = feed
    const replay = sub.since === undefined ? undefined : channels.resume(feed, sub.since)
    if (sub.since !== undefined && replay === undefined) sub.reset = true
    let first: string | undefined
    let texts = replay?.texts ?? []
    let from = replay?.from ?? topic.last
    if (replay === undefined) {
      sub.since = undefined
      if (feed.kind === 'orders') {
        const since = sub.taken && channels.resume(feed, topic.cursor(sub.taken.at))
        if (sub.taken === undefined || since === undefined) {
          ask(sub)
          return
        }
        first = channels.ordersSnapshot(feed, sub.taken.orders, sub.taken.at, sub.reset)
        texts = since.texts
        from = sub.taken.at
      } else {
        first = channels.snapshot(feed, sub.reset)
        if (first === undefined) return
      }
    }
    connection.waiting.delete(sub)
    sub.live = true
    ws.subscribe(topic.name)
    if (sub.lagged) {
      const dropped = sub.missed + topic.published - sub.lagAt
      send(connection, `{"type":"lag","sub":"${topic.name}","dropped":${dropped}}`)
    }
    if (sub.ack !== undefined) {
      const seq = channels.shownPosition(feed, from)
      answer(connection, { type: 'subscribed', id: sub.ack.id, sub: topic.name, seq })
    }
    sub.ack = undefined
    sub.since = undefined
    sub.taken = undefined
    sub.lagged = false
    sub.reset = false
    sub.missed = 0
    if (first !== undefined) send(connection, first)
    for (const text of texts) send(connection, text)
  }

  function ask(sub: Subscription): void {
    if (sub.asking) return
    sub.asking = true
    sub.taken = undefined
    asks.push(sub)
    askNext()
  }

  const isGone = ({ connection, feed }: Subscription): boolean =>
    connection.subs.get(feed.topic.name)?.feed !== feed || connection.ws === undefined

  function askNext(): void {
    while (asking < ASKS_MAX) {
      const sub = asks.shift()
      if (sub === undefined) return
      if (isGone(sub) || sub.feed.kind !== 'orders') {
        sub.asking = false
        continue
      }
      asking++
      void askOrders(sub, sub.feed.trader).finally(() => {
        asking--
        askNext()
      })
    }
  }

  async function askOrders(sub: Subscription, trader: Parameters<typeof gateway.openOrders>[0]) {
    // From here on the topic keeps what happens, and the answer is not older than this.
    const at = sub.feed.topic.last
    const orders = await gateway.openOrders(trader, undefined, settings.deadlineMs)
    sub.asking = false
    if (isGone(sub)) return
    if (isRejection(orders)) {
      clock.after(ASK_AGAIN_MS, () => {
        if (!isGone(sub) && !sub.live) ask(sub)
      })
      return
    }
    sub.taken = { orders, at }
    pump(sub.connection)
  }

  /** Sends what belongs to a channel. What is dropped here is seen in `dropped`. */
  function send({ ws }: Connection, text: string): void {
    ws?.send(text)
  }

  /** Answers a request. A client that cannot even take that is beyond help. */
  function answer(connection: Connection, body: object): void {
    const { ws } = connection
    if (ws === undefined) return
    if (ws.send(JSON.stringify(body)) === DROPPED) condemn(connection)
  }

  /** It cannot be helped: it gets no more, and is closed as soon as it can be told why. */
  function condemn(connection: Connection): void {
    connection.doomedAtMs ??= clock.nowMs()
    lagging.add(connection)
    dismiss(connection)
  }

  function dismiss(connection: Connection): void {
    const { ws, doomedAtMs } = connection
    if (ws === undefined || doomedAtMs === undefined) return
    if (ws.getBufferedAmount() <= settings.bufferBytesMax) {
      closedLagging++
      end(connection, CLOSE_LAGGING, 'too slow')
    } else if (clock.nowMs() - doomedAtMs > settings.lagMsMax) {
      // Not even the reason for its end gets through.
      closedLagging++
      ws.close()
    }
  }

  function answerError(
    connection: Connection,
    id: FrameId | undefined,
    rejection: Rejection,
  ): void {
    answer(connection, { type: 'error', id, ...errorBody(rejection, sentenceOf(rejection)) })
  }

  function end(connection: Connection, code: number, reason: string): void {
    connection.ws?.end(code, reason)
  }

  function lagged(connection: Connection): void {
    if (connection.settling) return
    connection.settling = true
    connection.lagSinceMs ??= clock.nowMs()
    lagging.add(connection)
    for (const sub of connection.subs.values()) if (sub.live) sub.lagAt = sub.feed.topic.published
    // The library is in the middle of its topics; they may be touched in the next turn only.
    setImmediate(() => settle(connection))
  }

  function settle(connection: Connection): void {
    connection.settling = false
    if (connection.ws === undefined) return
    for (const sub of connection.subs.values()) {
      if (!sub.live) continue
      wait(sub)
      sub.lagged = true
    }
    pump(connection)
  }

  /** The wheel: heartbeats of one slot, readers that lag too long, topics nobody came back to. */
  function tick(): void {
    ticking = connections.size > 0 || channels.lingering() > 0
    if (ticking) clock.after(settings.heartbeatMs / SLOTS, tick)
    turn = (turn + 1) % SLOTS
    const nowMs = clock.nowMs()
    for (const connection of lagging) {
      if (connection.doomedAtMs !== undefined) dismiss(connection)
      else if (nowMs - (connection.lagSinceMs ?? nowMs) > settings.lagMsMax) condemn(connection)
    }
    for (const connection of wheel[turn]!) {
      if (!lagging.has(connection)) heartbeat(connection, nowMs)
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

  /** Whether the connection may send one more frame now. */
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
    if (nowMs - connection.windowAtMs >= WINDOW_MS) {
      connection.windowAtMs = nowMs
      connection.malformed = 0
      connection.excess = 0
    }
    if (message.byteLength > settings.payloadBytesMax) {
      const detail = `a frame must be at most ${settings.payloadBytesMax} bytes`
      answerError(connection, undefined, reject('BODY_TOO_LARGE', undefined, detail))
      end(connection, CLOSE_TOO_BIG, 'the frame is too large')
      return
    }
    const read = readFrame(message, isBinary)
    if (!withinRate(connection, nowMs)) {
      answerError(connection, read.id, reject('RATE_LIMITED'))
      if (++connection.excess > EXCESS_SECONDS * settings.messagesPerSecond) {
        end(connection, CLOSE_FLOOD, 'too many messages')
      }
      return
    }
    if (isMisread(read)) {
      answerError(connection, read.id, read.rejection)
      if (read.malformed && ++connection.malformed > MALFORMED_MAX) {
        end(connection, CLOSE_MALFORMED, 'too many malformed frames')
      }
      return
    }
    act(connection, read)
  }

  function act(connection: Connection, request: Request): void {
    const { id } = request
    switch (request.op) {
      case 'subscribe':
        subscribe(connection, request)
        break
      case 'unsubscribe': {
        const sub = connection.subs.get(request.sub)
        if (sub === undefined) {
          answerError(connection, id, NO_SUBSCRIPTION)
          break
        }
        drop(sub)
        answer(connection, { type: 'unsubscribed', id, sub: request.sub })
        break
      }
      case 'snapshot': {
        const sub = connection.subs.get(request.sub)
        if (sub === undefined) {
          answerError(connection, id, NO_SUBSCRIPTION)
          break
        }
        wait(sub)
        sub.since = undefined
        pump(connection)
        break
      }
      case 'auth':
        later(connection, id, async () => {
          const principal = await parts.authenticator.identify(`Bearer ${request.token}`)
          if (isRejection(principal)) return principal
          connection.principal = principal
          return { type: 'authenticated', address: checksumAddress(principal.address) }
        })
        break
      case 'place': {
        const { order, signature, permitSignature } = request
        const submission = { order, signature, ...(permitSignature && { permitSignature }) }
        write(connection, id, async () => {
          const at = connection.holdingDesk ?? desk
          const placed = await at.place(submission, clock.nowMs() + settings.deadlineMs)
          return isRejection(placed) ? placed : { type: 'placed', ...acceptedBody(placed) }
        })
        break
      }
      case 'cancel': {
        const { marketId, orderHash, side } = request
        write(connection, id, async () => {
          // Without bearer authentication everybody may cancel, as at REST; with it, his own only.
          const trader = parts.bearer ? connection.principal?.address : undefined
          const wanted = {
            marketId,
            orderHash,
            side: side === 'sell' ? SELL : BUY,
            ...(trader === undefined ? {} : { trader }),
          } as const
          const cancelled = await gateway.cancel(wanted, settings.deadlineMs)
          return isRejection(cancelled) ? cancelled : { type: 'cancelled', orderHash }
        })
        break
      }
      case 'cancelOnDisconnect':
        cancelOnDisconnect(connection, id, request.enabled)
        break
      case 'ping':
        answer(connection, { type: 'pong', id, ts: clock.nowMs() })
        break
    }
  }

  function cancelOnDisconnect(
    connection: Connection,
    id: FrameId | undefined,
    enabled: boolean,
  ): void {
    const { holding } = parts
    const { session } = connection
    if (connection.principal === undefined) {
      answerError(connection, id, reject('UNAUTHORIZED_MISSING_HEADER'))
      return
    }
    if (holding === undefined) {
      answerError(connection, id, NO_CANCEL_ON_DISCONNECT)
      return
    }
    if (!enabled) {
      connection.holdingDesk = undefined
      holding.orders.forget(session)
    } else {
      connection.holdingDesk ??= holding.deskWith({
        async before(order) {
          // Whoever is gone places nothing that he wanted to go with him.
          if (connection.ws === undefined) return reject('OVERLOADED')
          return holding.orders.hold(session, order)
        },
        refused: ({ orderHash }) => holding.orders.release(session, orderHash),
      })
    }
    answer(connection, { type: 'cancelOnDisconnect', id, enabled })
  }

  function subscribe(
    connection: Connection,
    { id, wanted, since }: Extract<Request, { op: 'subscribe' }>,
  ): void {
    const feed = channels.feedOf(wanted)
    if (isRejection(feed)) {
      answerError(connection, id, feed)
      return
    }
    const { name } = feed.topic
    let sub = connection.subs.get(name)
    if (sub === undefined) {
      if (connection.subs.size >= settings.subscriptionsMax) {
        // A topic that was made for nothing must not stay.
        channels.leave(feed, NOBODY)
        const detail = `a connection may have ${settings.subscriptionsMax} subscriptions`
        answerError(connection, id, reject('RATE_LIMITED', 'channel', detail))
        return
      }
      sub = {
        feed,
        connection,
        live: false,
        ack: undefined,
        since: undefined,
        reset: false,
        lagged: false,
        lagAt: 0,
        missed: 0,
        taken: undefined,
        asking: false,
      }
      connection.subs.set(name, sub)
      channels.join(feed, sub)
      subscriptions++
    }
    wait(sub)
    sub.ack = { id }
    sub.since = since
    pump(connection)
  }

  function drop(sub: Subscription): void {
    const { connection, feed } = sub
    connection.subs.delete(feed.topic.name)
    connection.waiting.delete(sub)
    if (sub.live) connection.ws?.unsubscribe(feed.topic.name)
    sub.live = false
    channels.leave(feed, sub)
    subscriptions--
  }

  function write(
    connection: Connection,
    id: FrameId | undefined,
    work: () => Promise<object | Rejection>,
  ): void {
    const { principal, ip } = connection
    if (parts.bearer && principal === undefined) {
      answerError(connection, id, reject('UNAUTHORIZED_MISSING_HEADER'))
    } else if (parts.drawWrite?.(ip, principal) === false) {
      answerError(connection, id, reject('RATE_LIMITED'))
    } else later(connection, id, work)
  }

  /** Answers when the work is done; the connection may be gone by then. */
  function later(
    connection: Connection,
    id: FrameId | undefined,
    work: () => Promise<object | Rejection>,
  ): void {
    if (connection.inFlight >= settings.requestsInFlightMax) {
      answerError(connection, id, reject('OVERLOADED'))
      return
    }
    connection.inFlight++
    work()
      .catch((error: unknown) => {
        log.error({ session: connection.session, err: error }, 'a request of the stream failed')
        // What is away outside may be back soon; everything else is a bug.
        return reject(error instanceof Fault && error.retryable ? 'OVERLOADED' : 'INTERNAL')
      })
      .then((result) => {
        connection.inFlight--
        if (isRejection(result)) answerError(connection, id, result)
        else answer(connection, { ...result, id })
      })
  }

  return {
    followed(shown, event) {
      channels.followed(shown, event)
      parts.holding?.orders.followed(event)
    },
    loaded: channels.loaded,
    marketHappened: (marketId, event, facts, atMs) =>
      channels.happened(marketId, { event, facts, atMs }),
    priced: channels.priced,
    quickMarket: channels.quickMarket,

    admit(peer) {
      const ip = limitedRange(peer)
      if (closing || connections.size >= settings.connectionsMax) return reject('OVERLOADED')
      if ((perIp.get(ip) ?? 0) >= settings.connectionsPerIp) {
        const detail = `${settings.connectionsPerIp} connections of one address are open`
        return reject('RATE_LIMITED', undefined, detail)
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
        inFlight: 0,
        tokens: settings.messagesBurst,
        tokensAtMs: nowMs,
        malformed: 0,
        excess: 0,
        windowAtMs: nowMs,
        holdingDesk: undefined,
        slot: nextSlot++ % SLOTS,
      }
      return { connection }
    },

    opened(ws) {
      const { connection } = ws.getUserData()
      connection.ws = ws
      connections.add(connection)
      perIp.set(connection.ip, (perIp.get(connection.ip) ?? 0) + 1)
      wheel[connection.slot]!.add(connection)
      if (!ticking) tick()
      const { session } = connection
      const { heartbeatMs } = settings
      const serverTime = clock.nowMs()
      answer(connection, { type: 'hello', version: 1, session, heartbeatMs, serverTime })
    },

    heard,

    dropped(ws, message) {
      const { connection } = ws.getUserData()
      droppedCount++
      const name = SUB_NAME.exec(Buffer.from(message.slice(0, SUB_WITHIN)).toString('latin1'))?.[1]
      const sub = name === undefined ? undefined : connection.subs.get(name)
      if (sub !== undefined) sub.missed++
      if (connection.ws !== undefined) lagged(connection)
    },

    drained(ws) {
      pump(ws.getUserData().connection)
    },

    closed(ws) {
      const { connection } = ws.getUserData()
      connection.ws = undefined
      if (!connections.delete(connection)) return
      for (const sub of [...connection.subs.values()]) drop(sub)
      parts.holding?.orders.end(connection.session)
      lagging.delete(connection)
      wheel[connection.slot]!.delete(connection)
      const left = (perIp.get(connection.ip) ?? 1) - 1
      if (left === 0) perIp.delete(connection.ip)
      else perIp.set(connection.ip, left)
    },

    revoked(keyIds) {
      const ids = new Set(keyIds)
      for (const connection of connections) {
        if (connection.principal !== undefined && ids.has(connection.principal.keyId)) {
          connection.principal = undefined
        }
      }
    },

    async shutdown() {
      closing = true
      for (const connection of connections) {
        // Each at a time of its own, so that they do not all come back at once.
        const reconnectInMs = Math.floor(Math.random() * settings.reconnectSpreadMs)
        send(connection, `{"type":"shutdown","reconnectInMs":${reconnectInMs}}`)
        end(connection, CLOSE_RESTART, 'the service restarts')
      }
      const late = new Promise<void>((resolve) => void clock.after(settings.deadlineMs, resolve))
      await Promise.race([parts.holding?.orders.settled(), late])
    },

    figures: () => ({
      connections: connections.size,
      subscriptions,
      topics: channels.topics(),
      lagging: lagging.size,
      published,
      dropped: droppedCount,
      closedLagging,
    }),
  }
}

/** What `send` says when it has not taken the message. */
const DROPPED = 2
const SUB_NAME = /"sub":"([^"]*)"/
/** Where the name of its subscription stands in a message. */
const SUB_WITHIN = 200
const NOBODY = {} as Subscription
const NO_SUBSCRIPTION = reject('NOT_FOUND', 'sub', 'there is no such subscription')
const NO_CANCEL_ON_DISCONNECT = reject(
  'INVALID_FIELD',
  'enabled',
  'this exchange cannot cancel on disconnect',
)
