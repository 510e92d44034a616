/** Handles orders on the stream: placing, cancelling, and the option to cancel on disconnect. */

import { optionsOf } from '#api/orders/order-options.ts'
import { withReceipt } from '#api/transparency/receipts.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { WriteStages } from '#http/write-stages.ts'
import type { OrderContext } from '#live/market-gateway.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import type { Connection } from './connection.ts'
import type { Delivery } from './delivery.ts'
import type { Asked, RequestPorts } from './request-ports.ts'
import type { Sessions } from './sessions.ts'

export function makeOrderRequests(
  ports: RequestPorts,
  { sessions, delivery }: { readonly sessions: Sessions; readonly delivery: Delivery },
) {
  const { gateway, orders, own, held, settings, clock } = ports
  const { answer, answerError } = delivery

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
    // A signed order becomes public when it settles. Without this check, another client could submit the same order on
    // a connection with cancel on disconnect. By disconnecting, that client could cancel the order.
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

  /** Places an order that is cancelled when its session ends. */
  async function placeHeld(
    connection: Connection,
    order: VerifiedOrder,
    context: OrderContext,
  ): Promise<OrderAccepted | Rejection> {
    const { session } = connection
    // Reject: the client has disconnected, and the order should not outlive the connection.
    if (connection.ws === undefined) return reject('OVERLOADED')
    const placed = await orders.enter(order, { ...context, session })
    // While the order was entered, the client may have disconnected or turned off cancel on disconnect. Then notify
    // `held` again, so that the change applies to the new order, too.
    if (connection.ws === undefined) held?.end(session)
    else if (!connection.cancelsOnDisconnect) held?.keep(session)
    return placed
  }

  async function cancel(
    connection: Connection,
    { marketId, orderHash, side, trader: named, receipt: isWanted = false }: Asked<'cancel'>,
    stages: WriteStages | undefined,
  ): Promise<object> {
    // With bearer authentication, an authenticated client may cancel only its own orders, or orders of an account that
    // it acts for. Without bearer authentication, any client may cancel any order, as with REST.
    const { principal } = connection
    const trader =
      ports.bearer && principal !== undefined
        ? await own.traderOf(principal, named, marketId)
        : named
    if (trader !== undefined && isRejection(trader)) return trader
    const wanted = {
      ...{ marketId, orderHash },
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
    { id, enabled }: Asked<'cancelOnDisconnect'>,
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

  return { place, cancel, cancelOnDisconnect }
}

const NOT_OWN_ORDER = reject(
  'NOT_ORDER_OWNER',
  'order.trader',
  'order.trader must be the authenticated address of this connection while cancelOnDisconnect is on',
)
const NO_CANCEL_ON_DISCONNECT = reject(
  'INVALID_FIELD',
  'enabled',
  'this exchange does not support cancelOnDisconnect',
)
