/**
 * The frames of the stream as schemas: those of clients, which are checked with them, and those of
 * the server. The AsyncAPI document is made of both.
 */

import Type, { type Static, type TSchema } from 'typebox'
import {
  AcceptedOrder,
  ErrorShape,
  OrderSubmission,
  pendingSize,
} from '#api/orders/order-shapes.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { OPEN_ORDERS_SNAPSHOT_MAX } from '#domain/limits.ts'
import { RESOLUTION_EVENTS } from '#domain/market.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import type { Outcome } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { TRADE_STATUSES } from '#domain/trade.ts'
import { parseJson } from '#http/json.ts'
import { address, bytes32, oneOf, safeInteger } from '#http/schemas.ts'
import { compileValidator, type Validator } from '#http/validate.ts'
import { PriceEvent, QUICK_MARKET_EVENTS, QuickMarket } from '#live/asset-shapes.ts'
import { Funds } from '#live/funds-shapes.ts'
import { type AssetChannel, CONFLATED_HZ, type Hz, type Wanted } from './feeds.ts'

const closed = { additionalProperties: false } as const

const Id = Type.Union([Type.String({ maxLength: 64 }), Type.Integer()], {
  description: 'Anything that tells this request from others; the answer repeats it',
})
const id = Type.Optional(Id)
export type FrameId = string | number

const marketId = () => bytes32<MarketId>({ description: 'The market' })
const sub = Type.String({
  maxLength: 128,
  description: 'The subscription, as `subscribed` named it',
})
const sinceSeq = Type.Optional(
  Type.Integer({ minimum: 0, description: 'Replay what followed this `seq`' }),
)
const sinceCursor = Type.Optional(
  Type.String({ maxLength: 64, description: 'Replay what followed this `cursor`' }),
)
const asset = Type.String({ minLength: 1, maxLength: 16, description: 'The asset: `BTC`' })

const subscribe = (channel: string, fields: Record<string, TSchema>) =>
  Type.Object(
    { op: Type.Literal('subscribe'), channel: Type.Literal(channel), id, ...fields },
    closed,
  )

/** What a client may subscribe to, by channel. */
export const SUBSCRIBE_FRAMES = {
  book: subscribe('book', {
    marketId: marketId(),
    outcome: safeInteger({ max: 1, description: '0 = YES, 1 = NO' }),
    mode: Type.Optional(
      oneOf(['every', 'conflate'], {
        description: 'Every change, or the sum of them now and then',
      }),
    ),
    maxHz: Type.Optional(
      safeInteger({ min: 1, max: 20, description: 'Only with `conflate`: 1, 5, 10 or 20' }),
    ),
    since: sinceSeq,
  }),
  trades: subscribe('trades', { marketId: marketId(), since: sinceSeq }),
  orders: subscribe('orders', {
    trader: address({ description: 'Whose orders' }),
    since: sinceCursor,
  }),
  funds: subscribe('funds', {
    trader: address({ description: 'Whose funds' }),
    chainId: safeInteger({ min: 1, description: 'The chain' }),
    since: sinceCursor,
  }),
  market: subscribe('market', {
    marketId: Type.Optional(marketId()),
    since: sinceCursor,
  }),
  price: subscribe('price', { asset, since: sinceCursor }),
  'quick-market': subscribe('quick-market', { asset, since: sinceCursor }),
} as const satisfies Record<string, TSchema>

const withOp = (op: string, fields: Record<string, TSchema>) =>
  Type.Object({ op: Type.Literal(op), id, ...fields }, closed)

/** What else a client may send, by op. */
export const OP_FRAMES = {
  unsubscribe: withOp('unsubscribe', { sub }),
  snapshot: withOp('snapshot', { sub }),
  auth: withOp('auth', {
    token: Type.String({ maxLength: 2_048, description: 'A bearer token, as for REST' }),
  }),
  place: withOp('place', OrderSubmission.properties),
  cancel: withOp('cancel', {
    orderHash: bytes32<OrderHash>({ description: 'The order' }),
    marketId: marketId(),
    side: Type.Optional(oneOf(['buy', 'sell'], { description: 'buy unless it says otherwise' })),
  }),
  cancelOnDisconnect: withOp('cancelOnDisconnect', { enabled: Type.Boolean() }),
  ping: withOp('ping', {}),
} as const satisfies Record<string, TSchema>

type Ops = {
  unsubscribe: { readonly sub: string }
  snapshot: { readonly sub: string }
  auth: { readonly token: string }
  place: Static<typeof OrderSubmission>
  cancel: {
    readonly orderHash: OrderHash
    readonly marketId: MarketId
    readonly side?: 'buy' | 'sell'
  }
  cancelOnDisconnect: { readonly enabled: boolean }
  ping: object
}

/** A frame that was understood. */
export type Request = { readonly id: FrameId | undefined } & (
  | {
      readonly op: 'subscribe'
      readonly wanted: Wanted
      readonly since: number | string | undefined
    }
  | { [Op in keyof Ops]: { readonly op: Op } & Ops[Op] }[keyof Ops]
)

/** A frame that was not; `malformed` when no client that reads the documentation sends it. */
type Misread = {
  readonly id: FrameId | undefined
  readonly rejection: Rejection
  readonly malformed: boolean
}

const compiled = (frames: Readonly<Record<string, TSchema>>): ReadonlyMap<string, Validator> =>
  new Map(Object.entries(frames).map(([name, schema]) => [name, compileValidator(schema)]))

const channels = compiled(SUBSCRIBE_FRAMES)
const ops = compiled(OP_FRAMES)
const OP_NAMES = ['subscribe', ...ops.keys()].join(', ')
const CHANNEL_NAMES = [...channels.keys()].join(', ')

export function isMisread(read: Request | Misread): read is Misread {
  return 'rejection' in read
}

export function readFrame(bytes: ArrayBuffer, isBinary: boolean): Request | Misread {
  if (isBinary) return misread(undefined, reject('INVALID_JSON', undefined, 'send text frames'))
  const { value, rejection } = parseJson(bytes)
  if (rejection !== undefined) return misread(undefined, rejection)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return misread(undefined, reject('INVALID_FIELD', undefined, 'a frame must be a JSON object'))
  }
  const frame = value as Record<string, unknown>
  const given = frame.id
  const known = typeof given === 'string' ? given.length <= 64 : Number.isSafeInteger(given)
  const id = known ? (given as FrameId) : undefined
  const { op } = frame
  if (op === undefined) return misread(id, reject('MISSING_FIELD', 'op'))
  if (op === 'subscribe') return readSubscribe(frame, id)
  const validator = typeof op === 'string' ? ops.get(op) : undefined
  if (validator === undefined) {
    return misread(id, reject('INVALID_FIELD', 'op', `op must be one of ${OP_NAMES}`))
  }
  if (!validator.fits(frame)) return misread(id, validator.flaw(frame))
  validator.normalise?.(frame)
  return { ...frame, id } as unknown as Request
}

function misread(id: FrameId | undefined, rejection: Rejection): Misread {
  return { id, rejection, malformed: true }
}

function readSubscribe(frame: Record<string, unknown>, id: FrameId | undefined): Request | Misread {
  const { channel } = frame
  if (channel === undefined) return misread(id, reject('MISSING_FIELD', 'channel'))
  const validator = typeof channel === 'string' ? channels.get(channel) : undefined
  if (validator === undefined) {
    const detail = `channel must be one of ${CHANNEL_NAMES}`
    return misread(id, reject('INVALID_FIELD', 'channel', detail))
  }
  if (!validator.fits(frame)) return misread(id, validator.flaw(frame))
  validator.normalise?.(frame)
  const asked = frame as {
    marketId?: MarketId
    outcome: Outcome
    mode?: string
    maxHz?: number
    trader: Address
    chainId: number
    asset: string
    since?: number | string
  }
  const subscription = { op: 'subscribe', id, since: asked.since } as const
  switch (channel as keyof typeof SUBSCRIBE_FRAMES) {
    case 'book': {
      const hz = paceOf(asked.mode, asked.maxHz)
      if (typeof hz === 'object') return misread(id, hz)
      const { marketId, outcome } = asked as { marketId: MarketId; outcome: Outcome }
      const pace = hz === undefined ? {} : { maxHz: hz }
      return { ...subscription, wanted: { channel: 'book', marketId, outcome, ...pace } }
    }
    case 'trades':
      return {
        ...subscription,
        wanted: { channel: 'trades', marketId: asked.marketId as MarketId },
      }
    case 'orders':
      return { ...subscription, wanted: { channel: 'orders', trader: asked.trader } }
    case 'funds': {
      const { trader, chainId } = asked
      return { ...subscription, wanted: { channel: 'funds', trader, chainId } }
    }
    case 'market': {
      const { marketId } = asked
      const wanted = marketId === undefined ? {} : { marketId }
      return { ...subscription, wanted: { channel: 'market', ...wanted } }
    }
    case 'price':
    case 'quick-market': {
      const wanted = { channel: channel as AssetChannel, asset: asked.asset.toUpperCase() }
      return { ...subscription, wanted }
    }
  }
}

const DEFAULT_HZ: Hz = 10

function paceOf(mode: string | undefined, maxHz: number | undefined): Hz | undefined | Rejection {
  if (mode !== 'conflate') {
    if (maxHz === undefined) return undefined
    return reject('INVALID_FIELD', 'maxHz', 'maxHz goes with mode conflate only')
  }
  const hz = CONFLATED_HZ.find((known) => known === (maxHz ?? DEFAULT_HZ))
  return hz ?? reject('INVALID_FIELD', 'maxHz', 'maxHz must be 1, 5, 10 or 20')
}

const seq = Type.Integer({ description: 'The market’s sequence number of the change' })
const prevSeq = Type.Integer({ description: 'The change before it in this subscription' })
const cursor = Type.String({ description: 'Opaque; give it back as `since`' })
const prevCursor = Type.String({ description: 'The cursor of the message before it' })
const ts = Type.Integer({ description: 'Unix milliseconds' })
const reset = Type.Optional(
  Type.Literal(true, { description: 'Forget what you had: something in between is not known' }),
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

/** What the server sends. */
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
      Type.Enum(ORDER_CLOSE_REASONS.filter((reason) => !['filled', 'expired'].includes(reason))),
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
