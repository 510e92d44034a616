/**
 * Tracks the messages that each connection must still receive, and sends them.
 *
 * A subscription is live if its socket has joined the topic of uWebSockets.js. Otherwise it waits for a snapshot or a
 * replay. It receives the snapshot or the replay and becomes live in the same turn of the event loop, so no message is
 * lost in between. Waiting subscriptions are served one after another, and only while little data is buffered for their
 * socket. So memory per connection stays bounded, however many feeds the client follows and however slowly it reads.
 * `slow-readers.ts` handles connections that are too slow. Nothing in this file waits for a reader.
 */

import type { Rejection } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '#http/errors.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Channels } from './channels.ts'
import type { Connection, Socket, Subscription } from './connection.ts'
import type { Feed } from './feeds.ts'
import type { FrameId } from './frames.ts'
import { makeOrderAsks } from './order-asks.ts'
import { makeSlowReaders, type SlowReaderSettings } from './slow-readers.ts'
import { type Draw, snapshotWeight } from './weights.ts'

export type DeliverySettings = SlowReaderSettings & { readonly deadlineMs: number }

/**
 * Maximum cost, in reads (see `weights.ts`), of the snapshots for one connection per turn of the event loop. It is
 * about 1 ms of work.
 */
const TURN_UNITS = 25

/** Result of `send` for a dropped message. */
const DROPPED = 2

export type Delivery = {
  /** Marks the subscription as waiting for a snapshot. */
  wait(sub: Subscription): void
  /** Serves waiting subscriptions while the socket accepts data. */
  pump(connection: Connection): void
  /** Makes every follower of the feed wait for a new snapshot. */
  startOver(feed: Feed<Subscription>): void
  /** Sends a message of a channel to the connection; a dropped message is reported to `dropped`. */
  send(connection: Connection, text: string): void
  /** Answers a request. Closes the connection of a client that cannot receive the answer. */
  answer(connection: Connection, body: object): void
  answerError(connection: Connection, id: FrameId | undefined, rejection: Rejection): void
  end(connection: Connection, code: number, reason: string): void
  /** Records that the WebSocket library dropped this message. The connection then counts as lagging. */
  dropped(connection: Connection, message: ArrayBuffer): void
  /** Closes connections that have lagged for longer than `lagMsMax`, and serves the other lagging connections. */
  checkLagging(nowMs: number): void
  isLagging(connection: Connection): boolean
  forget(connection: Connection): void
  figures(): { readonly lagging: number; readonly dropped: number; readonly closedLagging: number }
}

type DeliveryPorts = {
  readonly channels: () => Channels<Subscription>
  readonly gateway: Pick<MarketGateway, 'openOrdersPage'>
  /** Returns whether all markets of a feed are followed. Starts to follow those markets that are not followed yet. */
  readonly isFollowed: (feed: Feed<Subscription>) => boolean
  readonly settings: DeliverySettings
  readonly draw: Draw | undefined
  readonly clock: Clock
}

export function makeDelivery(ports: DeliveryPorts): Delivery {
  const { gateway, settings, clock } = ports
  const lowWaterBytes = Math.floor(settings.bufferBytesMax / 4)
  const ask = makeOrderAsks({ gateway, clock, deadlineMs: settings.deadlineMs, pump })
  const readers = makeSlowReaders({ settings, clock, wait, pump })

  function pump(connection: Connection): void {
    const { ws, waiting } = connection
    if (ws === undefined || connection.settling) return
    if (connection.doomedAtMs !== undefined) {
      readers.dismiss(connection)
      return
    }
    let units = 0
    for (const sub of waiting) {
      if (ws.getBufferedAmount() > lowWaterBytes) return
      if (units >= TURN_UNITS) {
        // The remaining subscriptions are served in a later turn, after other connections had their turn.
        setImmediate(() => pump(connection))
        return
      }
      serve(ws, sub)
      if (sub.live) units += 1 + snapshotWeight(sub.feed)
      // Stop if a message to the reader was dropped, or if the connection was closed, while the subscription was
      // served.
      if (connection.settling || connection.ws === undefined) return
    }
    if (connection.lagSinceMs === undefined) return
    for (const sub of waiting) if (sub.lagged) return
    readers.caughtUp(connection)
  }

  /**
   * Makes a subscription live. The subscription keeps waiting if data that it needs is missing, or if the client cannot
   * pay for the snapshot.
   */
  function serve(ws: Socket, sub: Subscription): void {
    const { feed, connection } = sub
    const { topic } = feed
    // The feed's position is unknown until this front follows the feed's markets. The subscription keeps waiting.
    if (!ports.isFollowed(feed)) return
    if (!sub.paid && !pays(sub, ports.draw)) return
    const channels = ports.channels()
    const owed = owedTo(sub, channels)
    if (owed === undefined) {
      if (feed.kind === 'orders') ask(sub)
      return
    }
    connection.waiting.delete(sub)
    sub.live = true
    ws.subscribe(topic.name)
    if (sub.lagged) {
      const dropped = sub.missed + topic.published - sub.lagAt
      send(connection, `{"type":"lag","sub":"${topic.name}","dropped":${dropped}}`)
    }
    if (sub.ack !== undefined) {
      const seq = channels.shownPosition(feed, owed.from)
      answer(connection, { type: 'subscribed', id: sub.ack.id, sub: topic.name, seq })
    }
    sub.ack = undefined
    sub.lagged = false
    sub.reset = false
    sub.missed = 0
    forgetPlace(sub)
    if (owed.first !== undefined) send(connection, owed.first)
    for (const text of owed.texts) send(connection, text)
  }

  function answer(connection: Connection, body: object): void {
    const { ws } = connection
    if (ws === undefined) return
    if (ws.send(JSON.stringify(body)) === DROPPED) readers.condemn(connection)
  }

  return {
    wait,
    pump,
    startOver(feed) {
      for (const sub of feed.topic.members) {
        wait(sub)
        sub.paid = true
        // If the client already received the feed's state, or asked to resume from a position, it must
        // discard the state that it has.
        sub.reset ||= sub.ack === undefined || sub.since !== undefined
        forgetPlace(sub)
        pump(sub.connection)
      }
    },
    send,
    answer,
    answerError(connection, id, rejection) {
      answer(connection, { type: 'error', id, ...errorBody(rejection, sentenceOf(rejection)) })
    },
    end: ({ ws }, code, reason) => void ws?.end(code, reason),
    dropped: readers.dropped,
    checkLagging: readers.check,
    isLagging: readers.has,
    forget: readers.forget,
    figures: readers.figures,
  }
}

function wait(sub: Subscription): void {
  if (sub.live) sub.connection.ws?.unsubscribe(sub.feed.topic.name)
  sub.live = false
  sub.connection.waiting.add(sub)
}

function send({ ws }: Connection, text: string): void {
  ws?.send(text)
}

/**
 * Charges the client for a snapshot. A lagging reader pays again for each repeated snapshot; while the reader cannot
 * pay, the subscription waits.
 */
function pays(sub: Subscription, draw: Draw | undefined): boolean {
  const what = { cost: 'read', weight: snapshotWeight(sub.feed) } as const
  sub.paid = draw?.(what, sub.connection.ip, undefined).allowed !== false
  return sub.paid
}

/** Forgets the position to resume from: the subscription then begins with a snapshot. */
function forgetPlace(sub: Subscription): void {
  sub.since = undefined
  sub.taken = undefined
}

/**
 * First messages of a subscription: the snapshot `first` (undefined if the client resumes), then `texts`, which are the
 * topic's messages after position `from`.
 */
type Owed = {
  readonly first: string | undefined
  readonly texts: readonly string[]
  readonly from: number
}

/** Returns the messages with which a subscription begins; undefined while its snapshot cannot be written. */
function owedTo(sub: Subscription, channels: Channels<Subscription>): Owed | undefined {
  const { feed, since } = sub
  const { topic } = feed
  if (since !== undefined) {
    const replay = channels.resume(feed, since)
    if (replay !== undefined) return { first: undefined, ...replay }
    sub.reset = true
    sub.since = undefined
  }
  if (feed.kind !== 'orders') {
    const from = topic.last
    const first = channels.snapshot(feed, sub.reset)
    return first === undefined ? undefined : { first, texts: [], from }
  }
  const { taken } = sub
  const later = taken && channels.resume(feed, topic.cursor(taken.at))
  if (taken === undefined || later === undefined) return undefined
  const first = channels.ordersSnapshot(feed, taken, sub.reset)
  return { first, texts: later.texts, from: taken.at }
}
