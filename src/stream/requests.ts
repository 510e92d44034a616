/** Requests of clients on the stream, one function per kind. */

import { optionsOf } from '#api/orders/order-options.ts'
import type { OrderService } from '#api/orders/order-service.ts'
import { traced } from '#api/orders/order-trace.ts'
import type { OwnOrders } from '#api/orders/own-orders.ts'
import { type Receipts, withReceipt } from '#api/transparency/receipts.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Log } from '#http/hooks.ts'
import { makeRepeatedErrors } from '#http/repeated-errors.ts'
import type { Principal } from '#http/route.ts'
import type { WriteStages } from '#http/write-stages.ts'
import type { MarketGateway, OrderContext } from '#live/market-gateway.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Tracer } from '#runtime/trace.ts'
import type { Channels } from './channels.ts'
import { type Connection, rangesOf, type Subscription } from './connection.ts'
import type { ConnectionCount } from './connection-count.ts'
import type { Delivery } from './delivery.ts'
import type { EventMarkets, Feed } from './feeds.ts'
import type { FrameId, Request } from './frames.ts'
import type { HeldSessions } from './held-sessions.ts'
import type { Sessions } from './sessions.ts'
import {
  type Draw,
  OP_WEIGHTS,
  replayWeight,
  snapshotWeight,
  subscriptionSize,
  tickersWeight,
  WRITE_UNITS,
} from './weights.ts'

type Requests = {
  /** Handles a request, and returns the units charged for it. */
  act(connection: Connection, request: Request): number
  /** Ends a subscription. */
  drop(sub: Subscription): void
  subscriptions(): number
}

/** Functions and settings for requests. */
export type RequestPorts = {
  readonly gateway: Pick<MarketGateway, 'openOrdersPage' | 'cancel'>
  readonly orders: Pick<OrderService, 'verify' | 'enter'>
  readonly own: OwnOrders
  /** Returns the markets of an event, or undefined if there is none with this slug. */
  readonly eventMarkets: (event: {
    readonly slug: string
    readonly chainId?: number
  }) => Promise<EventMarkets | undefined>
  /** Session orders; undefined if clients cannot use them. */
  readonly held?: HeldSessions
  /** Signs receipts; undefined if the log is not public. */
  readonly receipts?: Receipts
  /** Traces some of the orders and cancels. */
  readonly tracer?: Tracer | undefined
  /** True if orders need an authenticated session. */
  readonly bearer: boolean
  /** Draws the cost of a request; returns false if nothing is left. */
  readonly draw?: Draw
  readonly settings: {
    readonly deadlineMs: number
    readonly subscriptionsMax: number
    readonly subscriptionsPerIp: number
    readonly subscriptionsTotal: number
    /** Limit of an IPv6 /48 as a multiple of that of one /64; unlimited by default. */
    readonly siteTimes?: number
    /** Maximum number of unanswered requests per connection. */
    readonly requestsInFlightMax: number
  }
  readonly clock: Clock
  readonly log: Log
}

type Asked<Op extends Request['op']> = Extract<Request, { op: Op }>

export function makeRequests(
  ports: RequestPorts,
  within: {
    readonly channels: Channels<Subscription>
    readonly delivery: Delivery
    readonly sessions: Sessions
    readonly count: ConnectionCount
    /** Called when an asynchronous request was answered. */
    readonly answered: (connection: Connection) => void
  },
): Requests {
  const { gateway, orders, own, held, settings, clock, log } = ports
  const { channels, delivery, sessions, count } = within
  const { answer, answerError } = delivery
  const errors = makeRepeatedErrors(log, clock)
  let subscriptions = 0
  /** Sum of the weights of all subscriptions. */
  let subscribed = 0
  /** Units charged for the current request. */
  let units = 0

  /** Charges a request beyond its frame; answers `RATE_LIMITED` if the address has no units left. */
  function pays(
    connection: Connection,
    { op, id }: Request,
    options: { readonly snapshot?: number; readonly principal?: Principal | undefined } = {},
  ): boolean {
    const { cost, weight: named } = OP_WEIGHTS[op]
    const weight = named === 'snapshot' ? (options.snapshot ?? 0) : named
    units += cost === 'write' ? WRITE_UNITS * weight : weight
    if (weight === 0) return true
    if (ports.draw?.({ cost, weight }, connection.ip, options.principal) !== false) return true
    answerError(connection, id, reject('RATE_LIMITED'))
    return false
  }

  function act(connection: Connection, request: Request): number {
    units = 0
    carryOut(connection, request)
    return units
  }

  function carryOut(connection: Connection, request: Request): void {
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
        if (!pays(connection, request, { snapshot: snapshotWeight(sub.feed) })) break
        delivery.wait(sub)
        sub.paid = true
        sub.since = undefined
        delivery.pump(connection)
        break
      }
      case 'auth':
        if (!pays(connection, request)) break
        later(connection, id, async () => {
          const principal = await sessions.authenticate(connection, request.token)
          if (isRejection(principal)) return principal
          return { type: 'authenticated', address: checksumAddress(principal.address) }
        })
        break
      case 'place':
        write(connection, request, () =>
          traced(ports.tracer, request, (stages) => place(connection, request, stages)),
        )
        break
      case 'cancel':
        write(connection, request, () =>
          traced(ports.tracer, request, (stages) => cancel(connection, request, stages)),
        )
        break
      case 'cancelAll':
        ownWrite(connection, request, async (principal, deadlineAtMs) => {
          const { marketId: market, group, trader } = request
          const cancelled = await own.cancelAll(principal, { market, group, trader }, deadlineAtMs)
          return isRejection(cancelled) ? cancelled : { ...cancelled, type: 'cancelledAll' }
        })
        break
      case 'deadman':
        ownWrite(connection, request, async (principal, deadlineAtMs) => {
          const set = await own.deadman(principal, request, deadlineAtMs)
          return isRejection(set) ? set : { ...set, type: 'deadman' }
        })
        break
      case 'cancelOnDisconnect':
        cancelOnDisconnect(connection, id, request.enabled)
        break
      case 'ping':
        answer(connection, { type: 'pong', id, ts: clock.nowMs() })
        break
    }
  }

  async function place(
    connection: Connection,
    { op: _op, id: _id, receipt = false, traceparent: _, ...submission }: Asked<'place'>,
    stages: WriteStages | undefined,
  ): Promise<object> {
    const { order } = submission
    const context: OrderContext = {
      deadlineAtMs: clock.nowMs() + settings.deadlineMs,
      ...optionsOf(submission),
      ip: connection.ip,
      principal: sessions.principalOf(connection),
      stages,
    }
    const asked = connection.cancelsOnDisconnect
    // Signed orders are public once they settle. If another session could place one with cancel on disconnect, it could
    // cancel the order.
    if (asked && context.principal?.address !== order.trader) return NOT_OWN_ORDER
    const verified = await orders.verify(submission, context)
    if (isRejection(verified)) return verified
    const placed =
      asked && connection.cancelsOnDisconnect
        ? await placeHeld(connection, verified, context)
        : await orders.enter(verified, context)
    if (isRejection(placed)) return placed
    return { type: 'placed', ...withReceipt(placed, receipt, ports.receipts) }
  }

  /** Places an order that ends with its session. */
  async function placeHeld(
    connection: Connection,
    order: VerifiedOrder,
    context: OrderContext,
  ): Promise<OrderAccepted | Rejection> {
    const { session } = connection
    // A client that has disconnected places no order that was to end with its session.
    if (connection.ws === undefined) return reject('OVERLOADED')
    const placed = await orders.enter(order, { ...context, session })
    // The funds are reserved first, so the session may have ended, or turned cancel on disconnect off, before the order
    // is sent.
    if (connection.ws === undefined) held?.end(session)
    else if (!connection.cancelsOnDisconnect) held?.keep(session)
    return placed
  }

  async function cancel(
    connection: Connection,
    { marketId, orderHash, side, trader: named, receipt: isWanted = false }: Asked<'cancel'>,
    stages: WriteStages | undefined,
  ): Promise<object> {
    // Without bearer authentication a client may cancel any order, as with REST; with it, only its own.
    const { principal } = connection
    const trader =
      ports.bearer && principal !== undefined
        ? await own.traderOf(principal, named, marketId)
        : named
    if (trader !== undefined && isRejection(trader)) return trader
    const wanted = {
      marketId,
      orderHash,
      side: side === 'sell' ? SELL : BUY,
      ...(trader === undefined ? {} : { trader }),
    } as const
    const deadlineAtMs = clock.nowMs() + settings.deadlineMs
    const cancelled = await gateway.cancel(wanted, { deadlineAtMs, stages })
    if (isRejection(cancelled)) return cancelled
    const { pendingSize, receipt } = withReceipt(cancelled, isWanted, ports.receipts)
    return {
      ...{ type: 'cancelled', orderHash },
      ...(pendingSize === undefined ? {} : { pendingSize }),
      ...(receipt === undefined ? {} : { receipt }),
    }
  }

  function cancelOnDisconnect(
    connection: Connection,
    id: FrameId | undefined,
    enabled: boolean,
  ): void {
    if (sessions.principalOf(connection) === undefined) {
      answerError(connection, id, reject('UNAUTHORIZED_MISSING_HEADER'))
      return
    }
    if (held === undefined) {
      answerError(connection, id, NO_CANCEL_ON_DISCONNECT)
      return
    }
    connection.cancelsOnDisconnect = enabled
    if (enabled) held.hold(connection.session)
    else held.keep(connection.session)
    answer(connection, { type: 'cancelOnDisconnect', id, enabled })
  }

  function subscribe(connection: Connection, request: Asked<'subscribe'>): void {
    const { id, wanted } = request
    if (wanted.channel === 'ticker' && wanted.event !== undefined) {
      followEvent(connection, request, wanted.event)
      return
    }
    // Finding or making the topic of a set of markets already costs as much as its snapshot.
    const namedWeight =
      wanted.channel === 'ticker' ? tickersWeight(wanted.marketIds?.length ?? 0) : 0
    if (!pays(connection, request, { snapshot: namedWeight })) return
    const feed = channels.feedOf(wanted)
    if (isRejection(feed)) {
      answerError(connection, id, feed)
      return
    }
    follow(connection, request, { feed, namedWeight })
  }

  /** Subscribes to the tickers of an event, whose markets the database knows. */
  function followEvent(
    connection: Connection,
    request: Asked<'subscribe'>,
    event: { readonly slug: string; readonly chainId?: number },
  ): void {
    const { id } = request
    if (!pays(connection, request, { snapshot: EVENT_WEIGHT })) return
    if (connection.inFlight >= settings.requestsInFlightMax) {
      answerError(connection, id, reject('OVERLOADED'))
      return
    }
    connection.inFlight++
    ports
      .eventMarkets(event)
      .then(
        (found) => {
          if (connection.ws === undefined) return
          if (found === undefined) answerError(connection, id, NO_EVENT)
          else {
            const feed = channels.eventFeedOf(found)
            follow(connection, request, { feed, namedWeight: EVENT_WEIGHT })
          }
        },
        (error: unknown) => {
          errors.tell(error, { session: connection.session }, 'an event cannot be read')
          answerError(connection, id, reject('OVERLOADED'))
        },
      )
      .finally(() => {
        connection.inFlight--
        within.answered(connection)
      })
  }

  /** Adds a subscription to a feed; `namedWeight` of its snapshot is paid. */
  function follow(
    connection: Connection,
    request: Asked<'subscribe'>,
    { feed, namedWeight }: { readonly feed: Feed<Subscription>; readonly namedWeight: number },
  ): void {
    const { id, since } = request
    const { name } = feed.topic
    let sub = connection.subs.get(name)
    const size = subscriptionSize(feed)
    const refused = sub === undefined ? noRoomFor(connection, size) : undefined
    if (refused !== undefined) answerError(connection, id, refused)
    if (
      refused !== undefined ||
      !pays(connection, request, {
        snapshot: Math.max(0, subscribeWeight(feed, since) - namedWeight),
      })
    ) {
      // Remove a topic that was created without need.
      if (sub === undefined) channels.leave(feed, NOBODY)
      return
    }
    if (sub === undefined) {
      sub = {
        feed,
        connection,
        size,
        live: false,
        ack: undefined,
        since: undefined,
        reset: false,
        lagged: false,
        lagAt: 0,
        missed: 0,
        paid: true,
        taken: undefined,
        asking: false,
      }
      connection.subs.set(name, sub)
      channels.join(feed, sub)
      subscriptions++
      countSubscribed(connection, size)
    }
    delivery.wait(sub)
    sub.paid = true
    sub.ack = { id }
    sub.since = since
    delivery.pump(connection)
  }

  function subscribeWeight(feed: Feed<Subscription>, since: number | string | undefined): number {
    const replay = since === undefined ? undefined : channels.resume(feed, since)
    return replay === undefined ? snapshotWeight(feed) : replayWeight(replay.texts)
  }

  /** Returns why a connection cannot have this many more subscriptions. */
  function noRoomFor(connection: Connection, size: number): Rejection | undefined {
    const { subscriptionsMax, subscriptionsPerIp, subscriptionsTotal, siteTimes } = settings
    if (connection.subscribed + size > subscriptionsMax) {
      const detail = `a connection may have at most ${subscriptionsMax} subscriptions`
      return reject('RATE_LIMITED', 'channel', detail)
    }
    const [range = '', site] = rangesOf(connection)
    const siteMax = subscriptionsPerIp * (siteTimes ?? Number.POSITIVE_INFINITY)
    const isFull = count.of(keyOf(range)) + size > subscriptionsPerIp
    if (isFull || (site !== undefined && count.of(keyOf(site)) + size > siteMax)) {
      const detail = `the connections of one address may have at most ${subscriptionsPerIp} subscriptions`
      return reject('RATE_LIMITED', 'channel', detail)
    }
    return subscribed + size > subscriptionsTotal ? reject('OVERLOADED') : undefined
  }

  function countSubscribed(connection: Connection, by: number): void {
    subscribed += by
    connection.subscribed += by
    for (const range of rangesOf(connection)) count.add(keyOf(range), by)
  }

  function drop(sub: Subscription): void {
    const { connection, feed } = sub
    connection.subs.delete(feed.topic.name)
    connection.waiting.delete(sub)
    if (sub.live) connection.ws?.unsubscribe(feed.topic.name)
    sub.live = false
    channels.leave(feed, sub)
    subscriptions--
    countSubscribed(connection, -sub.size)
  }

  function write(
    connection: Connection,
    request: Request,
    work: () => Promise<object | Rejection>,
  ): void {
    const principal = sessions.principalOf(connection)
    if (ports.bearer && principal === undefined) {
      answerError(connection, request.id, reject('UNAUTHORIZED_MISSING_HEADER'))
    } else if (pays(connection, request, { principal })) later(connection, request.id, work)
  }

  /** Handles a write that concerns all orders of an address: the session must be authenticated. */
  function ownWrite(
    connection: Connection,
    request: Request,
    work: (principal: Principal, deadlineAtMs: number) => Promise<object | Rejection>,
  ): void {
    const principal = sessions.principalOf(connection)
    if (principal === undefined) {
      answerError(connection, request.id, reject('UNAUTHORIZED_MISSING_HEADER'))
      return
    }
    write(connection, request, () => work(principal, clock.nowMs() + settings.deadlineMs))
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
        errors.tell(error, { session: connection.session }, 'a request of the stream failed')
        // An outside failure may be temporary; everything else is a bug.
        return reject(error instanceof Fault && error.retryable ? 'OVERLOADED' : 'INTERNAL')
      })
      .then((result) => {
        connection.inFlight--
        if (isRejection(result)) answerError(connection, id, result)
        else answer(connection, { ...result, id })
        within.answered(connection)
      })
  }

  return { act, drop, subscriptions: () => subscriptions }
}

/** Key under which a subscription is counted, besides the connections of its range. */
const keyOf = (range: string): string => `subscribed ${range}`
const NOBODY = {} as Subscription
/** Cost of finding the markets of an event. */
const EVENT_WEIGHT = 4
const NO_EVENT = reject('EVENT_NOT_FOUND', 'event')
const NO_SUBSCRIPTION = reject('NOT_FOUND', 'sub', 'there is no such subscription')
const NOT_OWN_ORDER = reject(
  'NOT_ORDER_OWNER',
  'order.trader',
  'with cancelOnDisconnect on, order.trader must be the address that this connection authenticated as',
)
const NO_CANCEL_ON_DISCONNECT = reject(
  'INVALID_FIELD',
  'enabled',
  'this exchange cannot cancel on disconnect',
)
