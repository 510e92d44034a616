/** What clients ask for on the stream, one function per kind of request. */

import type { OrderAccepted } from '#actors/market/state.ts'
import { mannerOf } from '#api/orders/order-manner.ts'
import type { OrderService } from '#api/orders/order-service.ts'
import { acceptedBody } from '#api/orders/order-shapes.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { Fault } from '#domain/fault.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Log } from '#http/pipeline.ts'
import { makeRepeatedErrors } from '#http/repeated-errors.ts'
import type { Principal } from '#http/route.ts'
import type { MarketGateway, OrderContext } from '#live/market-gateway.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Channels } from './channels.ts'
import type { Connection, Subscription } from './connection.ts'
import type { Delivery } from './delivery.ts'
import type { FrameId, Request } from './frames.ts'
import type { HeldOrders } from './held-orders.ts'
import type { Sessions } from './sessions.ts'

type Requests = {
  act(connection: Connection, request: Request): void
  /** Ends a subscription. */
  drop(sub: Subscription): void
  subscriptions(): number
}

/** What requests are carried out with. */
export type RequestPorts = {
  readonly gateway: Pick<MarketGateway, 'openOrdersPage' | 'cancel'>
  readonly orders: Pick<OrderService, 'verify' | 'enter'>
  /** Orders that go with their session; without it a client cannot ask for that. */
  readonly held?: HeldOrders
  /** Whether orders need an authenticated session. */
  readonly bearer: boolean
  /** Draws what a request costs; false when there is nothing left to draw from. */
  readonly draw?: (cost: 'read' | 'write', ip: string, principal: Principal | undefined) => boolean
  readonly settings: {
    readonly deadlineMs: number
    readonly subscriptionsMax: number
    /** Requests of one connection that wait for an answer at once. */
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
    /** A request that took its time is answered. */
    readonly answered: (connection: Connection) => void
  },
): Requests {
  const { gateway, orders, held, settings, clock, log } = ports
  const { channels, delivery, sessions } = within
  const { answer, answerError } = delivery
  const errors = makeRepeatedErrors(log, clock)
  let subscriptions = 0

  function act(connection: Connection, request: Request): void {
    const { id } = request
    if (!WRITES.has(request.op) && ports.draw?.('read', connection.ip, undefined) === false) {
      answerError(connection, id, reject('RATE_LIMITED'))
      return
    }
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
        delivery.wait(sub)
        sub.since = undefined
        delivery.pump(connection)
        break
      }
      case 'auth':
        // As much as a write: a key may have to be looked up, and a signature is checked.
        if (ports.draw?.('write', connection.ip, undefined) === false) {
          answerError(connection, id, reject('RATE_LIMITED'))
          break
        }
        later(connection, id, async () => {
          const principal = await sessions.authenticate(connection, request.token)
          if (isRejection(principal)) return principal
          return { type: 'authenticated', address: checksumAddress(principal.address) }
        })
        break
      case 'place':
        write(connection, id, () => place(connection, request))
        break
      case 'cancel':
        write(connection, id, () => cancel(connection, request))
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
    { order, signature, permitSignature, postOnly, timeInForce }: Asked<'place'>,
  ): Promise<object> {
    const submission = {
      ...{ order, signature },
      ...(permitSignature && { permitSignature }),
      ...(postOnly && { postOnly }),
      ...(timeInForce && { timeInForce }),
    }
    const manner = mannerOf(submission)
    const context: OrderContext = {
      deadlineAtMs: clock.nowMs() + settings.deadlineMs,
      manner,
      ip: connection.ip,
      principal: sessions.principalOf(connection),
    }
    const asked = connection.cancelsOnDisconnect
    // Signed orders are public once they settle: another session that held one could cancel it.
    if (asked && context.principal?.address !== order.trader) return NOT_OWN_ORDER
    const verified = await orders.verify(submission, context)
    if (isRejection(verified)) return verified
    const placed =
      asked && connection.cancelsOnDisconnect
        ? await placeHeld(connection, verified, context)
        : await orders.enter(verified, context)
    return isRejection(placed) ? placed : { type: 'placed', ...acceptedBody(placed) }
  }

  /** Places an order that goes with the session; one that its market refused is held no more. */
  async function placeHeld(
    connection: Connection,
    order: VerifiedOrder,
    context: OrderContext,
  ): Promise<OrderAccepted | Rejection> {
    const { session, timesKept } = connection
    // A client that is gone places no order that was meant to end with its session.
    if (connection.ws === undefined) return reject('OVERLOADED')
    const refused = held?.hold(session, order)
    if (refused !== undefined) return refused
    const placed = await orders.enter(order, { ...context, session })
    // Its funds are reserved first: what the session held may have been let go of before the order was sent.
    const isGone = connection.ws === undefined
    if (isGone || connection.timesKept !== timesKept) held?.hold(session, order)
    if (isRejection(placed) && placed.rejected !== 'OUTCOME_UNKNOWN') {
      held?.release(session, order.orderHash)
    } else if (isGone) held?.end(session)
    else if (!connection.cancelsOnDisconnect) held?.forget(session)
    else if (!isRejection(placed) && placed.duplicate) held?.placedAgain(session, order.orderHash)
    return placed
  }

  async function cancel(
    connection: Connection,
    { marketId, orderHash, side }: Asked<'cancel'>,
  ): Promise<object> {
    // Without bearer authentication a client may cancel any order, as at REST; with it, only its own.
    const trader = ports.bearer ? connection.principal?.address : undefined
    const wanted = {
      marketId,
      orderHash,
      side: side === 'sell' ? SELL : BUY,
      ...(trader === undefined ? {} : { trader }),
    } as const
    const deadlineAtMs = clock.nowMs() + settings.deadlineMs
    const cancelled = await gateway.cancel(wanted, { deadlineAtMs })
    if (isRejection(cancelled)) return cancelled
    const { pendingSize } = cancelled
    return { type: 'cancelled', orderHash, ...(pendingSize === undefined ? {} : { pendingSize }) }
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
    if (!enabled) {
      connection.timesKept++
      held.forget(connection.session)
    }
    answer(connection, { type: 'cancelOnDisconnect', id, enabled })
  }

  function subscribe(connection: Connection, { id, wanted, since }: Asked<'subscribe'>): void {
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
    delivery.wait(sub)
    sub.ack = { id }
    sub.since = since
    delivery.pump(connection)
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
    const principal = sessions.principalOf(connection)
    if (ports.bearer && principal === undefined) {
      answerError(connection, id, reject('UNAUTHORIZED_MISSING_HEADER'))
    } else if (ports.draw?.('write', connection.ip, principal) === false) {
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
        errors.tell(error, { session: connection.session }, 'a request of the stream failed')
        // What is away outside may be back soon; everything else is a bug.
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

/** What draws for itself; everything else costs what a read does. */
const WRITES: ReadonlySet<Request['op']> = new Set(['auth', 'place', 'cancel'])
const NOBODY = {} as Subscription
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
