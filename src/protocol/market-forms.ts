/**
 * Compact forms of the most frequent messages between fronts and markets: orders, cancels and their answers. As
 * objects, these messages would cost the sending and the receiving thread several times as much time.
 */

import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, PermitSignature, Side, VerifiedOrder } from '#domain/order.ts'
import type { OrderTags } from '#domain/order-tags.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import type { Form, Forms } from '#runtime/channel.ts'
import type { MarketProtocol, OrderAccepted, OrderCancelled } from './market.ts'

type Writable<Message> = { -readonly [Field in keyof Message]: Message[Field] }
type PlaceOrder = MarketProtocol['PlaceOrder']['takes']
type CancelOrder = MarketProtocol['CancelOrder']['takes']

const placeOrder: Form<PlaceOrder> = {
  cells: 19,
  write(message, into) {
    const { order, requestId, session, timeInForce } = message
    // An order that is traced is sent as an object, because the form has no place for the trace.
    if (message.trace !== undefined) return false
    into.push(
      order.marketId,
      order.trader,
      order.side,
      order.outcome,
      order.price,
      order.size,
      order.nonce,
      order.expiration,
      order.makerFeeRecipient,
      order.orderHash,
      order.signature,
      order.permit,
      requestId,
      session,
      timeInForce,
      message.tags,
      message.bookByMs,
      message.replaces,
      message.replaceMode,
    )
    return true
  },
  read(batch, at) {
    const order: Writable<VerifiedOrder> = {
      marketId: batch[at] as MarketId,
      trader: batch[at + 1] as Address,
      side: batch[at + 2] as Side,
      outcome: batch[at + 3] as Outcome,
      price: batch[at + 4] as Price,
      size: batch[at + 5] as Shares,
      nonce: batch[at + 6] as Uint64,
      expiration: batch[at + 7] as Uint64,
      makerFeeRecipient: batch[at + 8] as Address,
      orderHash: batch[at + 9] as OrderHash,
      signature: batch[at + 10] as string,
    }
    const permit = batch[at + 11] as PermitSignature | undefined
    const requestId = batch[at + 12] as string | undefined
    const session = batch[at + 13] as string | undefined
    if (permit !== undefined) order.permit = permit
    const message: PlaceOrder = { order }
    if (requestId !== undefined) message.requestId = requestId
    if (session !== undefined) message.session = session
    const timeInForce = batch[at + 14] as TimeInForce | undefined
    if (timeInForce !== undefined) message.timeInForce = timeInForce
    const tags = batch[at + 15] as OrderTags | undefined
    const bookByMs = batch[at + 16] as number | undefined
    const replaces = batch[at + 17] as OrderHash | undefined
    if (tags !== undefined) message.tags = tags
    if (bookByMs !== undefined) message.bookByMs = bookByMs
    if (replaces !== undefined) message.replaces = replaces
    if (batch[at + 18] === 'always') message.replaceMode = 'always'
    return message
  },
}

/** Form of an order with `reservedMs`. Fronts of an older version send the shorter form. */
const placeReservedOrder: Form<PlaceOrder> = {
  cells: placeOrder.cells + 1,
  write(message, into) {
    if (!placeOrder.write(message, into)) return false
    into.push(message.reservedMs)
    return true
  },
  read(batch, at) {
    const message = placeOrder.read(batch, at)
    const reservedMs = batch[at + placeOrder.cells] as number | undefined
    if (reservedMs !== undefined) message.reservedMs = reservedMs
    return message
  },
}

const cancelOrder: Form<CancelOrder> = {
  cells: 5,
  write({ marketId, orderHash, side, trader, requestId }, into) {
    into.push(marketId, orderHash, side, trader, requestId)
    return true
  },
  read(batch, at) {
    const message: CancelOrder = {
      marketId: batch[at] as MarketId,
      orderHash: batch[at + 1] as OrderHash,
      side: batch[at + 2] as Side,
    }
    const trader = batch[at + 3] as Address | undefined
    const requestId = batch[at + 4] as string | undefined
    if (trader !== undefined) message.trader = trader
    if (requestId !== undefined) message.requestId = requestId
    return message
  },
}

type Answer = OrderAccepted | OrderCancelled | { readonly status?: never }

const accepted: Form<Answer> = {
  cells: 5,
  write(answer, into) {
    if (answer.status !== 'accepted') return false
    into.push(answer.orderHash, answer.matches, answer.timestamp, answer.duplicate, answer.filled)
    return true
  },
  read(batch, at) {
    const answer: OrderAccepted = {
      orderHash: batch[at] as OrderHash,
      status: 'accepted',
      matches: batch[at + 1] as number,
      timestamp: batch[at + 2] as number,
    }
    const filled = batch[at + 4] as number | undefined
    const more: OrderAccepted = filled === undefined ? answer : { ...answer, filled }
    if (batch[at + 3] !== true) return more
    return { ...more, duplicate: true } satisfies OrderAccepted
  },
}

const cancelled: Form<Answer> = {
  cells: 2,
  write(answer, into) {
    if (answer.status !== 'cancelled') return false
    into.push(answer.orderHash, answer.pendingSize)
    return true
  },
  read(batch, at) {
    const answer: OrderCancelled = { status: 'cancelled', orderHash: batch[at] as OrderHash }
    const pendingSize = batch[at + 1] as number | undefined
    return pendingSize === undefined ? answer : { ...answer, pendingSize }
  },
}

/**
 * Short encodings (forms) of the messages between a front and a market thread. New forms must be appended at the end.
 * If a message type has several forms, the sender uses the last one, and the receiver reads all of them.
 */
export const MARKET_FORMS: Forms = {
  requests: [
    { type: 'PlaceOrder', ...(placeOrder as Form<unknown>) },
    { type: 'CancelOrder', ...(cancelOrder as Form<unknown>) },
    { type: 'PlaceOrder', ...(placeReservedOrder as Form<unknown>) },
  ],
  answers: [accepted as Form<unknown>, cancelled as Form<unknown>],
}
