/** Schemas of server frames; the AsyncAPI document is built from them. */

import Type, { type TSchema } from 'typebox'
import { AcceptedOrder, ErrorShape, pendingSize } from '#api/orders/order-shapes.ts'
import { OPEN_ORDERS_SNAPSHOT_MAX, TICKERS_TOLD_MAX } from '#domain/limits.ts'
import { RESOLUTION_EVENTS } from '#domain/market.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import { TRADE_STATUSES } from '#domain/trade.ts'
import { PriceEvent, QUICK_MARKET_EVENTS, QuickMarket } from '#live/asset-shapes.ts'
import { Funds } from '#live/funds-shapes.ts'
import { tickerFields } from '#live/ticker-shapes.ts'
import { Id } from './frames.ts'

const seq = Type.Integer({ description: 'The market’s sequence number of the change' })
const prevSeq = Type.Integer({ description: 'The change before it in this subscription' })
const cursor = Type.String({ description: 'Opaque; give it back as `since`' })
const prevCursor = Type.String({ description: 'The cursor of the message before it' })
const ts = Type.Integer({ description: 'Unix milliseconds' })
const reset = Type.Optional(
  Type.Literal(true, { description: 'Forget what you had: something in between is not known' }),
)
const stale = Type.Optional(
  Type.Literal(true, {
    description:
      'The newest changes may be missing: the owner of a market has not confirmed itself',
  }),
)
const named = { sub: Type.String({ description: 'Which subscription it belongs to' }) }
const echoed = { id: Type.Optional(Id) }
const market = { marketId: Type.String() }
const outcome = Type.Integer({ description: '0 = YES, 1 = NO' })
const side = Type.Integer({ description: '0 = BUY, 1 = SELL' })
const levels = Type.Array(
  Type.Array(Type.Integer(), { minItems: 2, maxItems: 2, description: '`[price, size]`' }),
)
const position = Type.Unsafe<number | string>({
  anyOf: [{ type: 'integer' }, { type: 'string' }],
  description: 'A `seq` of books and trades, a `cursor` of everything else',
})
const checksum = Type.Integer({ description: 'CRC-32 of the book after this message' })
const orderStatus = Type.Enum(['accepted', 'partially_filled', 'filled', 'cancelled', 'expired'])

const message = (type: string, fields: Record<string, TSchema>) =>
  Type.Object({ type: Type.Literal(type), ...fields })

const tradeFields = {
  tradeId: Type.String(),
  price: Type.Integer(),
  size: Type.Integer(),
  outcome,
  buyer: Type.String(),
  seller: Type.String(),
  takerSide: side,
  ts,
}
const orderFields = {
  orderHash: Type.String(),
  ...market,
  side,
  outcome,
  price: Type.Integer(),
  size: Type.Optional(Type.Integer()),
  status: orderStatus,
  remainingSize: Type.Integer(),
  ts,
}

const resolutionFacts = {
  assertionId: Type.Optional(Type.String()),
  proposer: Type.Optional(Type.String()),
  proposedOutcome: Type.Optional(Type.Boolean({ description: 'true = YES' })),
  bondAmount: Type.Optional(Type.String({ description: 'In the stablecoin, 6 decimals' })),
  assertionTime: Type.Optional(Type.Integer({ description: 'Unix seconds' })),
  expirationTime: Type.Optional(
    Type.Integer({ description: 'Unix seconds: the end of the dispute window' }),
  ),
  winningOutcome: Type.Optional(outcome),
  txHash: Type.Optional(Type.String()),
  blockNumber: Type.Optional(Type.Integer()),
}

const Ticker = Type.Object({ ...market, ...tickerFields }, { title: 'Ticker' })

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
  placed: message('placed', { ...echoed, ...AcceptedOrder.properties }),
  cancelled: message('cancelled', {
    ...echoed,
    orderHash: Type.String(),
    pendingSize: Type.Optional(pendingSize()),
  }),
  cancelOnDisconnect: message('cancelOnDisconnect', { ...echoed, enabled: Type.Boolean() }),
  pong: message('pong', { ...echoed, ts }),
  heartbeat: message('heartbeat', {
    ts,
    subs: Type.Record(Type.String(), position, {
      description: 'The last position of each subscription that is in step',
    }),
  }),
  lag: message('lag', {
    ...named,
    dropped: Type.Integer({ description: 'Messages that are known to be lost, at least' }),
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
        ...tradeFields,
        seq,
        status: Type.Enum([...TRADE_STATUSES]),
        txHash: Type.String(),
      }),
    ),
    ts,
    reset,
    stale,
  }),
  trade: message('trade', {
    ...named,
    ...market,
    ...tradeFields,
    seq,
    prevSeq,
    fill: Type.Integer({ description: 'Which of the trades of one match it is, from 1' }),
    fills: Type.Integer({ description: 'How many trades the match made' }),
    status: Type.Literal('matched'),
  }),
  'trade.status': message('trade.status', {
    ...named,
    ...market,
    tradeId: Type.String(),
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
    orders: Type.Array(Type.Object(orderFields), {
      description: `The oldest ${OPEN_ORDERS_SNAPSHOT_MAX}`,
    }),
    count: Type.Integer({ description: 'Open orders in all' }),
    nextCursor: Type.Union([Type.String(), Type.Null()], {
      description: 'The `cursor` of `GET /api/v1/orders` for the others; null when these are all',
    }),
    ts,
    reset,
  }),
  order: message('order', {
    ...named,
    ...orderFields,
    reason: Type.Optional(
      Type.Enum(
        ORDER_CLOSE_REASONS.filter((reason) => !['filled', 'taken', 'expired'].includes(reason)),
      ),
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
    reason: Type.Enum(['expired', 'resolved', 'withdrawn']),
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
    state: Type.Optional(Type.Enum(['open', 'expired', 'resolved', 'withdrawn'])),
    resolution: Type.Optional(
      Type.Object(
        { event: Type.Enum([...RESOLUTION_EVENTS]), ...resolutionFacts, ts },
        { description: 'The last that the chain told, if anything' },
      ),
    ),
    count: Type.Optional(Type.Integer({ description: 'Of all markets: how many there are' })),
    seq: Type.Optional(seq),
    cursor,
    ts,
    reset,
    stale,
  }),
  market: message('market', {
    ...named,
    ...market,
    event: Type.Enum(['created', 'expired', 'withdrawn', ...RESOLUTION_EVENTS]),
    seq: Type.Optional(seq),
    resolution: Type.Optional(
      Type.Object(resolutionFacts, {
        description: 'Of what the chain tells: what is known with it',
      }),
    ),
    cursor,
    prevCursor,
    ts,
  }),
  'ticker.snapshot': message('ticker.snapshot', {
    ...named,
    tickers: Type.Array(Ticker, {
      description: `Those that were named; of all markets the open ones, the newest first, at most ${TICKERS_TOLD_MAX}`,
    }),
    count: Type.Integer({ description: 'How many markets are open, or were named' }),
    cursor,
    ts,
    reset,
    stale,
  }),
  ticker: message('ticker', {
    ...named,
    tickers: Type.Array(Ticker, { description: 'Each market that changed, as it is now' }),
    cursor,
    prevCursor,
    ts,
  }),
  'price.snapshot': message('price.snapshot', {
    ...named,
    asset: Type.String(),
    last: Type.Union([PriceEvent, Type.Null()]),
    cursor,
    ts,
    reset,
  }),
  price: message('price', { ...named, ...PriceEvent.properties, cursor, prevCursor }),
  'quick-market.snapshot': message('quick-market.snapshot', {
    ...named,
    asset: Type.String(),
    quickMarket: Type.Union([QuickMarket, Type.Null()]),
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
