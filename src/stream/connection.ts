/** One client of the stream and its subscriptions, as plain data; only the hub changes it. */

import type { WebSocket } from 'uWebSockets.js'
import { randomUUID } from 'node:crypto'
import { siteOf } from '#http/client-ip.ts'
import type { Principal } from '#http/route.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import type { Feed } from './feeds.ts'
import type { FrameId } from './frames.ts'

/** Data that uWebSockets.js keeps with a socket. */
export type SocketData = { readonly connection: Connection }
export type Socket = WebSocket<SocketData>

/** Open orders from the market threads, and the topic's position at the time of the request. */
export type TakenOrders = OrdersPage & { readonly at: number }

export type Subscription = {
  readonly feed: Feed<Subscription>
  readonly connection: Connection
  /** Number of subscriptions it counts as. */
  readonly size: number
  /** True if its socket is in the topic; otherwise it waits for a snapshot or a replay. */
  live: boolean
  /** Request that still awaits `subscribed`. */
  ack: { readonly id: FrameId | undefined } | undefined
  /** Position from which the client wants to resume. */
  since: number | string | undefined
  /** True if the next snapshot replaces state from which the client cannot resume. */
  reset: boolean
  /** True if the client must be notified of dropped messages. */
  lagged: boolean
  /** Number of messages published when it began to lag, and number of drops seen. */
  lagAt: number
  missed: number
  /** True if its next snapshot is already paid for: the client requested it, or the server has to start over. */
  paid: boolean
  taken: TakenOrders | undefined
  asking: boolean
}

export type Connection = {
  readonly session: string
  readonly ip: string
  /** Undefined once closed: a closed socket must not be touched. */
  ws: Socket | undefined
  principal: Principal | undefined
  readonly subs: Map<string, Subscription>
  /** Subscriptions that are not live, in the order of service. */
  readonly waiting: Set<Subscription>
  /** Time since which messages wait for it. */
  lagSinceMs: number | undefined
  /** Time since which it waits to be closed. */
  doomedAtMs: number | undefined
  /** True if a drop was seen and is handled in the next turn. */
  settling: boolean
  /** Frames that wait for their turn; the intake bounds their bytes. */
  readonly frames: { readonly message: ArrayBuffer; readonly isBinary: boolean }[]
  /** Sum of the weights of its subscriptions. */
  subscribed: number
  /** Requests without an answer yet. */
  inFlight: number
  /** Frames it may still send, and the time of that count. */
  tokens: number
  tokensAtMs: number
  /** Malformed frames, and frames above the rate, within a window. */
  malformed: number
  excess: number
  windowAtMs: number
  /** True if its orders are cancelled when it ends. */
  cancelsOnDisconnect: boolean
  /** Number of connections before it. */
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

/** Returns the ranges that a connection counts for: its address or /64, and its /48. */
export function rangesOf({ ip }: Connection): readonly string[] {
  const site = siteOf(ip)
  return site === undefined ? [ip] : [ip, site]
}
