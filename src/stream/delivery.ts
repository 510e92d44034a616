/**
 * Tracks the messages that each connection must still receive, and sends them.
 *
 * A subscription is either live, with its socket in the topic of uWebSockets.js, or waits for a snapshot or a replay.
 * It becomes live and receives that in the same turn, so nothing is lost in between. Waiting subscriptions are served
 * one after another while little is buffered for their socket: memory per connection stays bounded, however much it
 * follows and however slowly it reads.
 *
 * If the library drops a message because too much is buffered, it does not report which others it dropped. So all
 * subscriptions of that connection wait again, and are snapshotted once the socket has drained. Nothing here ever waits
 * for a reader.
 */

import type { Address } from '#domain/ids.ts'
import { OPEN_ORDERS_SNAPSHOT_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import { errorBody, sentenceOf } from '#http/errors.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Channels } from './channels.ts'
import type { Connection, Socket, Subscription } from './connection.ts'
import type { Feed } from './feeds.ts'
import type { FrameId } from './frames.ts'
import { TURN_UNITS } from './intake.ts'
import { type Draw, snapshotWeight } from './weights.ts'

export type DeliverySettings = {
  /** Maximum number of buffered bytes per socket; further messages are dropped. */
  readonly bufferBytesMax: number
  /** A reader that lags longer is closed. */
  readonly lagMsMax: number
  readonly deadlineMs: number
}

const CLOSE_LAGGING = 4008

/** Concurrent requests for open orders. */
const ASKS_MAX = 32
const ASK_AGAIN_MS = 250
/** Result of `send` for a dropped message. */
const DROPPED = 2
const SUB_NAME = /"sub":"([^"]*)"/
/** Position of the subscription's name in a message. */
const SUB_WITHIN = 200

export type Delivery = {
  /** Marks the subscription as waiting for a snapshot. */
  wait(sub: Subscription): void
  /** Serves waiting subscriptions while the socket accepts data. */
  pump(connection: Connection): void
  /** Makes every follower of the feed wait for a new snapshot. */
  startOver(feed: Feed<Subscription>): void
  /** Sends a message of a channel to the connection; a dropped message is reported to `dropped`. */
  send(connection: Connection, text: string): void
  /** Answers a request; closes a client that cannot receive even that. */
  answer(connection: Connection, body: object): void
  answerError(connection: Connection, id: FrameId | undefined, rejection: Rejection): void
  end(connection: Connection, code: number, reason: string): void
  /** Reports that the library dropped this message. */
  dropped(connection: Connection, message: ArrayBuffer): void
  /** Closes connections that lag too long. */
  checkLagging(nowMs: number): void
  isLagging(connection: Connection): boolean
  forget(connection: Connection): void
  figures(): { readonly lagging: number; readonly dropped: number; readonly closedLagging: number }
}

export function makeDelivery(ports: {
  readonly channels: () => Channels<Subscription>
  readonly gateway: Pick<MarketGateway, 'openOrdersPage'>
  /** Returns whether the markets of a feed are followed; starts following the others. */
  readonly isFollowed: (feed: Feed<Subscription>) => boolean
  readonly settings: DeliverySettings
  readonly draw: Draw | undefined
  readonly clock: Clock
}): Delivery {
  const { gateway, settings, clock } = ports
  const lagging = new Set<Connection>()
  const lowWaterBytes = Math.floor(settings.bufferBytesMax / 4)
  const asks: Subscription[] = []
  let asking = 0
  let droppedCount = 0
  let closedLagging = 0

  function wait(sub: Subscription): void {
    if (sub.live) sub.connection.ws?.unsubscribe(sub.feed.topic.name)
    sub.live = false
    sub.connection.waiting.add(sub)
  }

  function pump(connection: Connection): void {
    const { ws, waiting } = connection
    if (ws === undefined || connection.settling) return
    if (connection.doomedAtMs !== undefined) {
      dismiss(connection)
      return
    }
    let units = 0
    for (const sub of waiting) {
      if (ws.getBufferedAmount() > lowWaterBytes) return
      if (units >= TURN_UNITS) {
        // Other connections get their turn before the rest is sent.
        setImmediate(() => pump(connection))
        return
      }
      serve(ws, sub)
      if (sub.live) units += 1 + snapshotWeight(sub.feed)
      // Serving may have found that the reader is too slow, or even closed it.
      if (connection.settling || connection.ws === undefined) return
    }
    if (connection.lagSinceMs === undefined) return
    for (const sub of waiting) if (sub.lagged) return
    connection.lagSinceMs = undefined
    lagging.delete(connection)
  }

  /** Makes a subscription live, unless data that it needs is missing. */
  function serve(ws: Socket, sub: Subscription): void {
    const { feed, connection } = sub
    const { topic } = feed
    // Until then its position is unknown here.
    if (!ports.isFollowed(feed)) return
    if (!sub.paid) {
      // A lagging reader pays for repeated snapshots; while it cannot pay, it waits.
      const what = { cost: 'read', weight: snapshotWeight(feed) } as const
      if (ports.draw?.(what, connection.ip, undefined) === false) return
      sub.paid = true
    }
    const channels = ports.channels()
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
        first = channels.ordersSnapshot(feed, sub.taken, sub.reset)
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

  async function askOrders(sub: Subscription, trader: Address) {
    // From here on the topic keeps events, and the answer is not older than this.
    const at = sub.feed.topic.last
    const deadlineAtMs = clock.nowMs() + settings.deadlineMs
    const asked = { trader, limit: OPEN_ORDERS_SNAPSHOT_MAX }
    const page = await gateway.openOrdersPage(asked, { deadlineAtMs })
    sub.asking = false
    if (isGone(sub)) return
    if (isRejection(page)) {
      clock.after(ASK_AGAIN_MS, () => {
        if (!isGone(sub) && !sub.live) ask(sub)
      })
      return
    }
    sub.taken = { ...page, at }
    pump(sub.connection)
  }

  function send({ ws }: Connection, text: string): void {
    ws?.send(text)
  }

  function answer(connection: Connection, body: object): void {
    const { ws } = connection
    if (ws === undefined) return
    if (ws.send(JSON.stringify(body)) === DROPPED) condemn(connection)
  }

  /** Sends nothing more to a connection, and closes it as soon as the reason can be sent. */
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
      // Not even the close reason can be sent.
      closedLagging++
      ws.close()
    }
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
    // The library is iterating its topics; they may be changed in the next turn only.
    setImmediate(() => settle(connection))
  }

  function settle(connection: Connection): void {
    connection.settling = false
    if (connection.ws === undefined) return
    for (const sub of connection.subs.values()) {
      if (!sub.live) continue
      wait(sub)
      sub.lagged = true
      sub.paid = false
    }
    pump(connection)
  }

  return {
    wait,
    pump,
    startOver(feed) {
      for (const sub of feed.topic.members) {
        wait(sub)
        sub.paid = true
        // A subscription without a first message has nothing to reset.
        sub.reset ||= sub.ack === undefined || sub.since !== undefined
        sub.since = undefined
        sub.taken = undefined
        pump(sub.connection)
      }
    },
    send,
    answer,
    answerError(connection, id, rejection) {
      answer(connection, { type: 'error', id, ...errorBody(rejection, sentenceOf(rejection)) })
    },
    end,
    dropped(connection, message) {
      droppedCount++
      const name = SUB_NAME.exec(Buffer.from(message.slice(0, SUB_WITHIN)).toString('latin1'))?.[1]
      const sub = name === undefined ? undefined : connection.subs.get(name)
      if (sub !== undefined) sub.missed++
      if (connection.ws !== undefined) lagged(connection)
    },
    checkLagging(nowMs) {
      for (const connection of lagging) {
        if (connection.doomedAtMs !== undefined) dismiss(connection)
        else if (nowMs - (connection.lagSinceMs ?? nowMs) > settings.lagMsMax) condemn(connection)
        else pump(connection)
      }
    },
    isLagging: (connection) => lagging.has(connection),
    forget: (connection) => void lagging.delete(connection),
    figures: () => ({ lagging: lagging.size, dropped: droppedCount, closedLagging }),
  }
}
