/** Functions and settings of a front that the handlers of stream requests need. */

import type { OrderService } from '#api/orders/order-service.ts'
import type { OwnOrders } from '#api/orders/own-orders.ts'
import type { Receipts } from '#api/transparency/receipts.ts'
import type { Log } from '#http/hooks.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Tracer } from '#runtime/trace.ts'
import type { EventMarkets } from './feeds.ts'
import type { Request } from './frames.ts'
import type { HeldSessions } from './held-sessions.ts'
import type { Draw } from './weights.ts'

/** Functions and settings for the handlers of stream requests. */
export type RequestPorts = {
  readonly gateway: Pick<MarketGateway, 'openOrdersPage' | 'cancel'>
  readonly orders: Pick<OrderService, 'verify' | 'enter'>
  readonly own: OwnOrders
  /** Returns the markets of an event; undefined if no event has this slug. */
  readonly eventMarkets: (event: {
    readonly slug: string
    readonly chainId?: number
  }) => Promise<EventMarkets | undefined>
  /** Sessions with cancel on disconnect; undefined if this exchange does not offer that option. */
  readonly held?: HeldSessions
  /** Signs receipts; undefined if the log is not public. */
  readonly receipts?: Receipts
  /** Traces some of the orders and cancels. */
  readonly tracer?: Tracer | undefined
  /** True if orders need an authenticated session. */
  readonly bearer: boolean
  /** Charges the cost of a request, and returns whether the client's rate limit allows the request. */
  readonly draw?: Draw
  readonly settings: {
    readonly deadlineMs: number
    readonly subscriptionsMax: number
    readonly subscriptionsPerIp: number
    readonly subscriptionsTotal: number
    /**
     * Multiplier for IPv6 /48 networks: each limit of one IP address is multiplied by this number for a /48.
     * Unlimited by default.
     */
    readonly siteTimes?: number
    /** Maximum number of unanswered requests per connection. */
    readonly requestsInFlightMax: number
  }
  readonly clock: Clock
  readonly log: Log
}

/** A stream request with operation `Op`. */
export type Asked<Op extends Request['op']> = Extract<Request, { op: Op }>
