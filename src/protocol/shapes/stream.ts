/**
 * The messages that the stream sends. The AsyncAPI document is generated from them, and they are the types of each
 * channel's messages.
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
  description: 'Any value that identifies this request; the answer repeats it',
})
const seq = Type.Integer({ description: 'The market’s sequence number of the change' })
const prevSeq = Type.Integer({
  description: 'Position of the previous change in this subscription',
})
const cursor = Type.String({
  description: 'Position of this message, in no defined format; send it as `since` to resume here',
})
const prevCursor = Type.String({ description: 'Cursor of the previous message' })
const ts = Type.Integer({ description: 'Unix milliseconds' })
const reset = Type.Optional(
  Type.Literal(true, { description: 'True if messages were lost: discard earlier state' }),
)
const stale = Type.Optional(
  Type.Literal(true, {
    description:
      'True if the newest changes may be missing, because this server has no confirmed connection to the server that runs the market',
  }),
)
const named = { sub: Type.String({ description: 'Subscription that the message belongs to' }) }
const echoed = { id: Type.Optional(Id) }
const market = { marketId: Type.String() }
const outcome = outcomeField()
const side = sideField()
const levels = Type.Array(pair(Type.Integer(), '`[price, size]`'))
const position = Type.Unsafe<number | string>({
  anyOf: [{ type: 'integer' }, { type: 'string' }],
  description: 'A `seq` for books and trades, a `cursor` for everything else',
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

/** Facts that come with a resolution event. */
export const StreamResolution = Type.Object({
  assertionId: Type.Optional(Type.String()),
  proposer: Type.Optional(Type.String()),
  proposedOutcome: Type.Optional(Type.Boolean({ description: 'true = YES' })),
  bondAmount: Type.Optional(Type.String({ description: 'Bond in the stablecoin, 6 decimals' })),
  assertionTime: Type.Optional(Type.Integer({ description: 'Unix seconds' })),
  expirationTime: Type.Optional(
    Type.Integer({ description: 'Unix seconds: the end of the dispute window' }),
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
        'Position of the last message of each subscription; without those that still wait for a snapshot',
    }),
  }),
  lag: message('lag', {
    ...named,
    dropped: Type.Integer({ description: 'Number of messages that were lost, at least' }),
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
    fill: Type.Integer({ description: 'Number of this trade within its match, from 1' }),
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
      description: `The oldest ${OPEN_ORDERS_SNAPSHOT_MAX} open orders`,
    }),
    count: Type.Integer({ description: 'Number of all open orders' }),
    nextCursor: orNull(Type.String(), {
      description:
        '`cursor` of `GET /api/v1/orders` for the remaining orders; null if there are none',
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
        { description: 'Latest event on the chain, if any' },
      ),
    ),
    count: Type.Optional(
      Type.Integer({ description: 'Number of markets, if the subscription is to all markets' }),
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
        description: 'Details of a step on the chain, such as a proposal; other steps have none',
      }),
    ),
    cursor,
    prevCursor,
    ts,
  }),
  'ticker.snapshot': message('ticker.snapshot', {
    ...named,
    tickers: Type.Array(StreamTicker, {
      description: `The requested markets; without a list the newest open ones, at most ${TICKERS_PER_MESSAGE_MAX}`,
    }),
    count: Type.Integer({
      description: 'Number of requested markets; without a list, the number of open markets',
    }),
    cursor,
    ts,
    reset,
    stale,
  }),
  ticker: message('ticker', {
    ...named,
    tickers: Type.Array(StreamTicker, {
      description: 'The markets that have changed, each with its current state',
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

/** A book in JSON; `BookMessage` of the SDK has the sizes as parsed. */
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
