/** One client of the stream and its subscriptions, as plain data; only the hub changes it. */

import type { WebSocket } from 'uWebSockets.js'
import { randomUUID } from 'node:crypto'
import { siteOf } from '#http/client-ip.ts'
import type { Principal } from '#http/route.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import type { Feed } from './feeds.ts'
import type { FrameId } from './frames.ts'

/** Data that uWebSockets.js stores with a socket. */
export type SocketData = { readonly connection: Connection }
export type Socket = WebSocket<SocketData>

/** Open orders that the market threads returned, and the topic's position when the orders were requested. */
export type TakenOrders = OrdersPage & { readonly at: number }

export type Subscription = {
  readonly feed: Feed<Subscription>
  readonly connection: Connection
  /** Weight of this subscription: the number of subscriptions that it counts as, for the limits. */
  readonly size: number
  /**
   * True if the socket receives the messages of the topic. Otherwise the subscription waits for a snapshot or a replay.
   */
  live: boolean
  /** The subscribe request that has not been answered with `subscribed` yet. */
  ack: { readonly id: FrameId | undefined } | undefined
  /** Position from which the client wants to resume. */
  since: number | string | undefined
  /** True if the next snapshot must replace the client's state, because the client cannot resume from that state. */
  reset: boolean
  /** True if the client must be notified of dropped messages. */
  lagged: boolean
  /**
   * `lagAt`: number of messages published on the topic when the connection began to lag. `missed`: number of dropped
   * messages that the WebSocket library reported.
   */
  lagAt: number
  missed: number
  /**
   * True if the next snapshot is free of charge: its request was charged already, or the server made the subscription
   * start over.
   */
  paid: boolean
  taken: TakenOrders | undefined
  asking: boolean
}

export type Connection = {
  readonly session: string
  readonly ip: string
  /** Undefined once the connection is closed, because a closed socket must not be touched. */
  ws: Socket | undefined
  principal: Principal | undefined
  readonly subs: Map<string, Subscription>
  /** Subscriptions that still wait for a snapshot or a replay, in the order in which they are served. */
  readonly waiting: Set<Subscription>
  /** Time at which the connection began to lag; undefined if it does not lag. */
  lagSinceMs: number | undefined
  /** Time at which the server decided to close the connection. */
  doomedAtMs: number | undefined
  /** True if a dropped message was noticed in this turn of the event loop and will be handled in the next turn. */
  settling: boolean
  /** Frames that wait until this connection is served; the intake limits their bytes. */
  readonly frames: { readonly message: ArrayBuffer; readonly isBinary: boolean }[]
  /** Sum of the weights of the connection's subscriptions. */
  subscribed: number
  /** Number of requests that have no answer yet. */
  inFlight: number
  /** Number of frames that the client may still send, as of `tokensAtMs`. */
  tokens: number
  tokensAtMs: number
  /** Number of malformed frames, and of frames above the rate limit, within the current window. */
  malformed: number
  excess: number
  windowAtMs: number
  /** True if the orders of this connection are cancelled when the connection ends. */
  cancelsOnDisconnect: boolean
  /** Number of connections opened before this one. */
  readonly number: number
}

export function newConnection(
  ip: string,
  number: number,
  nowMs: number,
  { messagesBurst }: { readonly messagesBurst: number },
): Connection {
  return {
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
    tokens: messagesBurst,
    tokensAtMs: nowMs,
    malformed: 0,
    excess: 0,
    windowAtMs: nowMs,
    cancelsOnDisconnect: false,
    number,
  }
}

/** Returns the IP ranges in which a connection is counted: its IPv4 address, or its IPv6 /64 and /48. */
export function rangesOf({ ip }: Connection): readonly string[] {
  const site = siteOf(ip)
  return site === undefined ? [ip] : [ip, site]
}
