/** One client of the stream and what it follows, as plain data; the hub is the only one to change it. */

import type { WebSocket } from 'uWebSockets.js'
import { siteOf } from '#http/client-ip.ts'
import type { Principal } from '#http/route.ts'
import type { OrdersPage } from '#protocol/market-host.ts'
import type { Feed } from './feeds.ts'
import type { FrameId } from './frames.ts'

/** What uWebSockets.js keeps with a socket. */
export type SocketData = { readonly connection: Connection }
export type Socket = WebSocket<SocketData>

/** Open orders as the market threads told them, and the topic's position when they were asked. */
export type TakenOrders = OrdersPage & { readonly at: number }

export type Subscription = {
  readonly feed: Feed<Subscription>
  readonly connection: Connection
  /** How many subscriptions it counts as. */
  readonly size: number
  /** Whether its socket is in the topic; else it waits for a snapshot or a replay. */
  live: boolean
  /** The request that is still to be answered `subscribed`. */
  ack: { readonly id: FrameId | undefined } | undefined
  /** Where the client wants to go on. */
  since: number | string | undefined
  /** The next snapshot replaces something that the client cannot bridge. */
  reset: boolean
  /** The client is to be told that messages were dropped. */
  lagged: boolean
  /** How many had been published when it began to lag, and how many were seen to be dropped. */
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
  /** Gone once it is closed: a closed socket must not be touched. */
  ws: Socket | undefined
  principal: Principal | undefined
  readonly subs: Map<string, Subscription>
  /** Those that are not live, in the order in which they are to be served. */
  readonly waiting: Set<Subscription>
  /** Since when it has not been able to take what it is owed. */
  lagSinceMs: number | undefined
  /** Since when it has been waiting to be closed. */
  doomedAtMs: number | undefined
  /** A drop has been seen and is dealt with in the next turn. */
  settling: boolean
  /** Frames that wait for their turn; their bytes are bounded by the intake. */
  readonly frames: { readonly message: ArrayBuffer; readonly isBinary: boolean }[]
  /** Sum of the weights of its subscriptions. */
  subscribed: number
  /** Requests that still wait for their answer. */
  inFlight: number
  /** What it may still send, and when that was counted. */
  tokens: number
  tokensAtMs: number
  /** Frames that made no sense, and frames too many, within a window. */
  malformed: number
  excess: number
  windowAtMs: number
  /** Whether the orders that it places are cancelled when it ends. */
  cancelsOnDisconnect: boolean
  /** How often it has said that they are to stay. */
  timesKept: number
  readonly slot: number
}

/** What a connection counts for: its address or /64, and the /48 of that. */
export function rangesOf({ ip }: Connection): readonly string[] {
  const site = siteOf(ip)
  return site === undefined ? [ip] : [ip, site]
}
