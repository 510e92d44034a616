/**
 * Builds the stream of a front: the hub, the orders that end with their session, and the charges to rate limits for
 * requests on the stream.
 */

import type { OrderService } from '#api/orders/order-service.ts'
import type { OwnOrders } from '#api/orders/own-orders.ts'
import type { Log } from '#config/logging.ts'
import type { ThreadData } from '#config/thread-data.ts'
import type { Authenticator } from '#http/auth.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import type { Limiter } from '#http/limits.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeConnectionCount } from '#stream/connection-count.ts'
import { type HeldSessions, makeHeldSessions } from '#stream/held-sessions.ts'
import {
  makeStreamHub,
  type StreamHub,
  type StreamPorts,
  type StreamSettings,
} from '#stream/hub.ts'
import type { FrontLinks } from './links.ts'

export function openStream(
  data: ThreadData,
  ports: {
    readonly board: MarketBoard
    readonly figures: FiguresBook
    readonly gateway: MarketGateway
    readonly orders: OrderService
    readonly ownOrders: OwnOrders
    readonly threads: FrontLinks['threads']
    readonly authenticator: Authenticator
    readonly limiter: Limiter | undefined
    readonly assets: readonly string[]
    readonly funds: StreamPorts['funds']
    readonly use: StreamPorts['use']
    readonly eventMarkets: StreamPorts['eventMarkets']
    readonly receipts: NonNullable<StreamPorts['receipts']>
    readonly tracer: StreamPorts['tracer']
    readonly publish: (topic: string, text: string) => void
    readonly turns: FairTurns | undefined
    readonly log: Log
  },
): { hub: StreamHub; heldSessions: HeldSessions; settings: StreamSettings } {
  const { board, gateway, orders, threads, authenticator, limiter } = ports
  const { stream, front, limits, auth } = data.settings
  const settings = {
    ...stream,
    deadlineMs: front.deadlineMs,
    siteTimes: limits.siteTimes,
    ...(limits.enabled
      ? {}
      : {
          connectionsPerIp: Number.POSITIVE_INFINITY,
          subscriptionsPerIp: Number.POSITIVE_INFINITY,
        }),
  }
  const heldSessions = makeHeldSessions({ threads, clock: systemClock })
  /** Charges a request on the stream to the client’s IP address and API key, like a request over HTTP. */
  const draw: NonNullable<StreamPorts['draw']> = ({ cost, weight }, ip, principal) => {
    if (limiter === undefined) return { allowed: true }
    const arrival = {
      requestId: '',
      route: '/api/v1/stream',
      auth: 'write',
      cost,
      weight,
      ip,
      authorization: '',
      deadlineAtMs: 0,
    } as const
    const verdict = limiter.limit(arrival, undefined)
    return principal === undefined || !verdict.allowed ? verdict : limiter.limit(arrival, principal)
  }

  const hub = makeStreamHub({
    board: () => board,
    figures: ports.figures,
    gateway,
    orders,
    own: ports.ownOrders,
    held: heldSessions,
    count: makeConnectionCount(data.streams, data.index),
    authenticator,
    assets: ports.assets,
    funds: ports.funds,
    use: ports.use,
    eventMarkets: ports.eventMarkets,
    receipts: ports.receipts,
    tracer: ports.tracer,
    bearer: auth.bearer,
    draw,
    publish: ports.publish,
    ...(ports.turns === undefined ? {} : { turns: ports.turns }),
    settings,
    clock: systemClock,
    log: ports.log,
  })
  return { hub, heldSessions, settings }
}
