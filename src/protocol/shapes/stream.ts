/**
 * The messages that the stream sends. The AsyncAPI document and the types of each channel's messages are derived from
 * them.
 */

import Type, { type TSchema } from 'typebox'
import { OPEN_ORDERS_SNAPSHOT_MAX, TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import { RESOLUTION_EVENTS } from '#domain/market.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import { CANCEL_CAUSES } from '#domain/order-tags.ts'
import { TRADE_STATUSES } from '#domain/trade.ts'
import {
  type Answer,
  growing,
  orNull,
  outcome as outcomeField,
  pair,
  side as sideField,
} from './fields.ts'
import { MARKET_STATUSES, Ticker } from './markets.ts'
import {
  CancelledOrders,
  DeadmanAnswer,
  ErrorShape,
  PlacedOrder,
  pendingSize,
  receipt,
  tags,
} from './orders.ts'
import { QUICK_MARKET_EVENTS, QuickMarket, StreamPrice } from './prices.ts'
import { streamTrade, Trade } from './trades.ts'
import { Funds } from './users.ts'

export const Id = Type.Union([Type.String({ maxLength: 64 }), Type.Integer()], {
  description: 'Id of the request, chosen by the client; the answer repeats it',
})
const seq = Type.Integer({ description: 'Market sequence number of the change' })
const prevSeq = Type.Integer({
  description: 'Sequence number of the previous change in this subscription',
})
const cursor = Type.String({
  description:
    'Position of this message, as opaque text; send it as `since` to resume after this message',
})
const prevCursor = Type.String({
  description: 'Cursor of the previous message of this subscription',
})
const ts = Type.Integer({ description: 'Time of the message, in Unix milliseconds' })
const reset = Type.Optional(
  Type.Literal(true, {
    description:
      'True if messages were lost: the client must replace its earlier state with this snapshot. Absent otherwise',
  }),
)
const stale = Type.Optional(
  Type.Literal(true, {
    description:
      'True if the newest changes can be missing, because this server has no confirmed connection to the server ' +
      'that runs the market. Absent otherwise',
  }),
)
const named = {
  sub: Type.String({ description: 'Name of the subscription that the message belongs to' }),
}
const echoed = { id: Type.Optional(Id) }
const market = { marketId: Type.String() }
const outcome = outcomeField()
const side = sideField()
const levels = Type.Array(
  pair(
    Type.Integer(),
    'A level of the book: `[price, size]`, in millionths of a dollar and of a share',
  ),
)
const position = Type.Unsafe<number | string>({
  anyOf: [{ type: 'integer' }, { type: 'string' }],
  description:
    'Position in the subscription: the `seq` for books and trades, the `cursor` for all other channels',
})
const checksum = Type.Integer({
  description: 'CRC-32 of the best ten levels of each side of the book after this message',
})

export const OrderStatus = Type.Enum([
  'accepted',
  'partially_filled',
  'filled',
  'cancelled',
  'expired',
])
export type OrderStatus = Answer<typeof OrderStatus>

const message = <const Name extends string, Fields extends Record<string, TSchema>>(
  type: Name,
  fields: Fields,
) => Type.Object({ type: Type.Literal(type), ...fields })

export const StreamOrder = Type.Object({
  orderHash: Type.String(),
  ...market,
  side,
  outcome,
  price: Type.Integer(),
  size: Type.Optional(Type.Integer()),
  status: OrderStatus,
  remainingSize: Type.Integer(),
  ...tags,
  ts,
})
export type StreamOrder = Answer<typeof StreamOrder>

/** Further fields of a resolution event. */
export const StreamResolution = Type.Object({
  assertionId: Type.Optional(Type.String()),
  proposer: Type.Optional(Type.String()),
  proposedOutcome: Type.Optional(
    Type.Boolean({ description: 'Proposed outcome: true = YES, false = NO' }),
  ),
  bondAmount: Type.Optional(
    Type.String({ description: 'Bond of the proposal, in millionths of the stablecoin' }),
  ),
  assertionTime: Type.Optional(
    Type.Integer({ description: 'Time of the proposal, in Unix seconds' }),
  ),
  expirationTime: Type.Optional(
    Type.Integer({ description: 'End of the dispute window, in Unix seconds' }),
  ),
  winningOutcome: Type.Optional(outcome),
  txHash: Type.Optional(Type.String()),
  blockNumber: Type.Optional(Type.Integer()),
})
export type StreamResolution = Answer<typeof StreamResolution>

export const StreamTicker = Type.Object({ ...market, ...Ticker.properties }, { title: 'Ticker' })
export type StreamTicker = Answer<typeof StreamTicker>

/** Frames that the server sends. */
export const SERVER_FRAMES = {
  hello: message('hello', {
    version: Type.Literal(1),
    session: Type.String(),
    heartbeatMs: Type.Integer(),
    serverTime: ts,
  }),
  subscribed: message('subscribed', { ...echoed, ...named, seq: position }),
  unsubscribed: message('unsubscribed', { ...echoed, ...named }),
  authenticated: message('authenticated', { ...echoed, address: Type.String() }),
  placed: message('placed', { ...echoed, ...PlacedOrder.properties }),
  cancelled: message('cancelled', {
    ...echoed,
    orderHash: Type.String(),
    pendingSize: Type.Optional(pendingSize()),
    ...receipt,
  }),
  cancelledAll: message('cancelledAll', { ...echoed, ...CancelledOrders.properties }),
  deadman: message('deadman', { ...echoed, ...DeadmanAnswer.properties }),
  cancelOnDisconnect: message('cancelOnDisconnect', { ...echoed, enabled: Type.Boolean() }),
  pong: message('pong', { ...echoed, ts }),
  heartbeat: message('heartbeat', {
    ts,
    subs: Type.Record(Type.String(), position, {
      description:
        'Position of the last message of each subscription; subscriptions that still wait for a snapshot are left out',
    }),
  }),
  lag: message('lag', {
    ...named,
    dropped: Type.Integer({ description: 'Minimum number of messages that were lost' }),
  }),
  shutdown: message('shutdown', { reconnectInMs: Type.Integer() }),
  error: message('error', { ...echoed, ...ErrorShape.properties }),
  'book.snapshot': message('book.snapshot', {
    ...named,
    ...market,
    outcome,
    seq,
    bids: levels,
    asks: levels,
    checksum,
    ts,
    reset,
    stale,
  }),
  'book.delta': message('book.delta', {
    ...named,
    ...market,
    outcome,
    seq,
    prevSeq,
    bids: levels,
    asks: levels,
    checksum,
    ts,
  }),
  'trades.snapshot': message('trades.snapshot', {
    ...named,
    ...market,
    seq,
    trades: Type.Array(
      Type.Object({
        ...streamTrade,
        seq,
        status: growing(TRADE_STATUSES),
        txHash: Trade.properties.txHash,
      }),
    ),
    ts,
    reset,
    stale,
  }),
  trade: message('trade', {
    ...named,
    ...market,
    ...streamTrade,
    seq,
    prevSeq,
    fill: Type.Integer({ description: 'Number of this trade within its match, starting at 1' }),
    fills: Type.Integer({ description: 'Number of trades in the match' }),
    status: Type.Literal('matched'),
  }),
  'trade.status': message('trade.status', {
    ...named,
    ...market,
    tradeId: Trade.properties.tradeId,
    seq,
    prevSeq,
    status: Type.Enum(TRADE_STATUSES.filter((status) => status !== 'matched')),
    txHash: Type.String(),
    reason: Type.String(),
    ts,
  }),
  'orders.snapshot': message('orders.snapshot', {
    ...named,
    trader: Type.String(),
    cursor,
    orders: Type.Array(StreamOrder, {
      description: `Open orders of the trader, oldest first, at most ${OPEN_ORDERS_SNAPSHOT_MAX}`,
    }),
    count: Type.Integer({ description: 'Number of all open orders of the trader' }),
    nextCursor: orNull(Type.String(), {
      description:
        'Value of `cursor` in `GET /api/v1/orders` for the remaining orders; null if there are none',
    }),
    ts,
    reset,
  }),
  order: message('order', {
    ...named,
    ...StreamOrder.properties,
    reason: Type.Optional(
      growing([
        ...ORDER_CLOSE_REASONS.filter((reason) => !['filled', 'taken', 'expired'].includes(reason)),
        ...CANCEL_CAUSES,
      ]),
    ),
    pendingSize: Type.Optional(pendingSize()),
    seq,
    cursor,
    prevCursor,
  }),
  'orders.ended': message('orders.ended', {
    ...named,
    ...market,
    status: Type.Enum(['expired', 'cancelled']),
    reason: growing(['expired', 'resolved', 'withdrawn']),
    seq,
    cursor,
    prevCursor,
    ts,
  }),
  'funds.snapshot': message('funds.snapshot', {
    ...named,
    ...Funds.properties,
    cursor,
    ts,
    reset,
  }),
  funds: message('funds', { ...named, ...Funds.properties, cursor, prevCursor, ts }),
  'market.snapshot': message('market.snapshot', {
    ...named,
    marketId: Type.Optional(Type.String()),
    state: Type.Optional(Type.Enum([...MARKET_STATUSES])),
    resolution: Type.Optional(
      Type.Object(
        { event: growing(RESOLUTION_EVENTS), ...StreamResolution.properties, ts },
        { description: 'Latest resolution event on the chain; absent if there is none' },
      ),
    ),
    count: Type.Optional(
      Type.Integer({
        description: 'Number of markets; present only if the subscription is for all markets',
      }),
    ),
    seq: Type.Optional(seq),
    cursor,
    ts,
    reset,
    stale,
  }),
  market: message('market', {
    ...named,
    ...market,
    event: growing(['created', 'expired', 'withdrawn', ...RESOLUTION_EVENTS]),
    seq: Type.Optional(seq),
    resolution: Type.Optional(
      Type.Object(StreamResolution.properties, {
        description:
          'Details of an event on the chain, such as a proposal; absent for other events',
      }),
    ),
    cursor,
    prevCursor,
    ts,
  }),
  'ticker.snapshot': message('ticker.snapshot', {
    ...named,
    tickers: Type.Array(StreamTicker, {
      description:
        'State of the requested markets. If the subscription names no markets, the newest open markets, at most ' +
        `${TICKERS_PER_MESSAGE_MAX}`,
    }),
    count: Type.Integer({
      description:
        'Number of requested markets; if the subscription names none, the number of open markets',
    }),
    cursor,
    ts,
    reset,
    stale,
  }),
  ticker: message('ticker', {
    ...named,
    tickers: Type.Array(StreamTicker, {
      description: 'Current state of each market that has changed',
    }),
    cursor,
    prevCursor,
    ts,
  }),
  'price.snapshot': message('price.snapshot', {
    ...named,
    asset: Type.String(),
    last: orNull(StreamPrice),
    cursor,
    ts,
    reset,
  }),
  price: message('price', { ...named, ...StreamPrice.properties, cursor, prevCursor }),
  'quick-market.snapshot': message('quick-market.snapshot', {
    ...named,
    asset: Type.String(),
    quickMarket: orNull(QuickMarket),
    cursor,
    ts,
    reset,
  }),
  'quick-market': message('quick-market', {
    ...named,
    asset: Type.String(),
    event: Type.Enum([...QUICK_MARKET_EVENTS]),
    quickMarket: QuickMarket,
    cursor,
    prevCursor,
    ts,
  }),
} as const satisfies Record<string, TSchema>

/** A book message in JSON. In `BookMessage`, the type of the SDK, sizes beyond 2^53 are text. */
export const BookFrame = Type.Union([SERVER_FRAMES['book.snapshot'], SERVER_FRAMES['book.delta']])
export type BookFrame = Answer<typeof BookFrame>

export const TradesMessage = Type.Union([
  SERVER_FRAMES['trades.snapshot'],
  SERVER_FRAMES.trade,
  SERVER_FRAMES['trade.status'],
])
export type TradesMessage = Answer<typeof TradesMessage>

export const OrdersMessage = Type.Union([
  SERVER_FRAMES['orders.snapshot'],
  SERVER_FRAMES.order,
  SERVER_FRAMES['orders.ended'],
])
export type OrdersMessage = Answer<typeof OrdersMessage>

export const MarketMessage = Type.Union([SERVER_FRAMES['market.snapshot'], SERVER_FRAMES.market])
export type MarketMessage = Answer<typeof MarketMessage>

export const PriceMessage = Type.Union([SERVER_FRAMES['price.snapshot'], SERVER_FRAMES.price])
export type PriceMessage = Answer<typeof PriceMessage>

export const QuickMarketMessage = Type.Union([
  SERVER_FRAMES['quick-market.snapshot'],
  SERVER_FRAMES['quick-market'],
])
export type QuickMarketMessage = Answer<typeof QuickMarketMessage>

export const TickerMessage = Type.Union([SERVER_FRAMES['ticker.snapshot'], SERVER_FRAMES.ticker])
export type TickerMessage = Answer<typeof TickerMessage>

/** Each message has all of a trader's funds. */
export const FundsMessage = Type.Union([SERVER_FRAMES['funds.snapshot'], SERVER_FRAMES.funds])
export type FundsMessage = Answer<typeof FundsMessage>
