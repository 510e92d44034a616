/** Client frames: the schemas that validate them, and their parser. */

import Type, { type Static, type TSchema } from 'typebox'
import { actingTrader } from '#api/orders/acting-for.ts'
import { deadmanAfterMs } from '#api/orders/deadman.ts'
import { groupName, OrderSubmission } from '#api/orders/order-shapes.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { TICKERS_NAMED_MAX } from '#domain/limits.ts'
import type { Outcome } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { parseJson } from '#http/json.ts'
import { address, bytes32, flag, oneOf, safeInteger } from '#http/schemas.ts'
import { compileValidator, type Validator } from '#http/validate.ts'
import { Id } from '#protocol/shapes/stream.ts'
import { type AssetChannel, CONFLATED_HZ, type Hz, type Wanted } from './feeds.ts'

const closed = { additionalProperties: false } as const
const PACES = CONFLATED_HZ.join(', ')

const id = Type.Optional(Id)
export type FrameId = string | number

const marketId = () => bytes32<MarketId>({ description: 'Market id' })
const sub = Type.String({
  maxLength: 128,
  description: 'Name of the subscription, as in the message `subscribed`',
})
const sinceSeq = Type.Optional(
  Type.Integer({
    minimum: 0,
    description: 'Resumes the subscription: the server first sends the messages after this `seq`',
  }),
)
const sinceCursor = Type.Optional(
  Type.String({
    maxLength: 64,
    description:
      'Resumes the subscription: the server first sends the messages after this `cursor`',
  }),
)
const asset = Type.String({
  minLength: 1,
  maxLength: 16,
  description: 'Symbol of the asset, such as `BTC`',
})

const subscribe = (channel: string, fields: Record<string, TSchema>) =>
  Type.Object(
    { op: Type.Literal('subscribe'), channel: Type.Literal(channel), id, ...fields },
    closed,
  )

/** Subscription frames by channel. */
export const SUBSCRIBE_FRAMES = {
  book: subscribe('book', {
    marketId: marketId(),
    outcome: safeInteger({ max: 1, description: 'Outcome: 0 = YES, 1 = NO' }),
    mode: Type.Optional(
      oneOf(['every', 'conflate'], {
        description:
          '`every` (the default) sends each change; `conflate` sends combined changes at intervals',
      }),
    ),
    maxHz: Type.Optional(
      safeInteger({
        min: Math.min(...CONFLATED_HZ),
        max: Math.max(...CONFLATED_HZ),
        description: `Maximum number of messages per second, one of ${PACES}; only if \`mode\` is \`conflate\``,
      }),
    ),
    implied: Type.Optional(
      flag({
        description:
          'True to include implied levels, which come from orders of the other outcome. Only a complementary market has such levels: there, buy orders for YES can match buy orders for NO, and sell orders can match likewise',
      }),
    ),
    since: sinceSeq,
  }),
  trades: subscribe('trades', { marketId: marketId(), since: sinceSeq }),
  orders: subscribe('orders', {
    trader: address({ description: 'Address of the trader' }),
    since: sinceCursor,
  }),
  funds: subscribe('funds', {
    trader: address({ description: 'Address of the trader' }),
    chainId: safeInteger({ min: 1, description: 'Chain id' }),
    since: sinceCursor,
  }),
  market: subscribe('market', {
    marketId: Type.Optional(marketId()),
    since: sinceCursor,
  }),
  ticker: subscribe('ticker', {
    marketIds: Type.Optional(
      Type.Array(marketId(), {
        minItems: 1,
        maxItems: TICKERS_NAMED_MAX,
        description: 'Ids of the markets to follow; all markets by default',
      }),
    ),
    event: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description:
          'Slug of an event: follows its markets, including later ones. It cannot be combined with `marketIds`',
      }),
    ),
    chainId: Type.Optional(
      safeInteger({
        min: 1,
        description: 'Chain of the event; needed only if events on several chains have this slug',
      }),
    ),
    since: sinceCursor,
  }),
  price: subscribe('price', { asset, since: sinceCursor }),
  'quick-market': subscribe('quick-market', { asset, since: sinceCursor }),
} as const satisfies Record<string, TSchema>

const receipt = Type.Optional(
  Type.Boolean({
    description:
      'True to get a `receipt` in the answer; it has an effect only if the log of the exchange is public',
  }),
)

/** A parent span as in the HTTP header `traceparent` (W3C Trace Context). */
const traceparent = Type.Optional(
  Type.String({
    maxLength: 55,
    pattern: '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
    description: 'Trace context, with the value of the HTTP header `traceparent`',
  }),
)

const withOp = (op: string, fields: Record<string, TSchema>) =>
  Type.Object({ op: Type.Literal(op), id, ...fields }, closed)

/** Client frames that are not subscriptions, by op. */
export const OP_FRAMES = {
  unsubscribe: withOp('unsubscribe', { sub }),
  snapshot: withOp('snapshot', { sub }),
  auth: withOp('auth', {
    token: Type.String({
      maxLength: 2_048,
      description: 'Bearer token, the same as for HTTP requests',
    }),
  }),
  place: withOp('place', { ...OrderSubmission.properties, receipt, traceparent }),
  cancel: withOp('cancel', {
    orderHash: bytes32<OrderHash>({ description: 'Order hash' }),
    marketId: marketId(),
    side: Type.Optional(
      oneOf(['buy', 'sell'], { description: 'Side of the order; `buy` by default' }),
    ),
    trader: Type.Optional(actingTrader()),
    receipt,
    traceparent,
  }),
  cancelAll: withOp('cancelAll', {
    marketId: Type.Optional(marketId()),
    group: Type.Optional(groupName()),
    trader: Type.Optional(actingTrader()),
  }),
  deadman: withOp('deadman', {
    afterMs: deadmanAfterMs(),
    trader: Type.Optional(actingTrader()),
  }),
  cancelOnDisconnect: withOp('cancelOnDisconnect', { enabled: Type.Boolean() }),
  ping: withOp('ping', {}),
} as const satisfies Record<string, TSchema>

type Traced = { readonly traceparent?: string }

type Ops = {
  unsubscribe: { readonly sub: string }
  snapshot: { readonly sub: string }
  auth: { readonly token: string }
  place: Static<typeof OrderSubmission> & Traced & { readonly receipt?: boolean }
  cancel: Traced & {
    readonly orderHash: OrderHash
    readonly marketId: MarketId
    readonly side?: 'buy' | 'sell'
    readonly trader?: Address
    readonly receipt?: boolean
  }
  cancelAll: { readonly marketId?: MarketId; readonly group?: string; readonly trader?: Address }
  deadman: { readonly afterMs: number; readonly trader?: Address }
  cancelOnDisconnect: { readonly enabled: boolean }
  ping: object
}

/** A valid frame. */
export type Request = { readonly id: FrameId | undefined } & (
  | {
      readonly op: 'subscribe'
      readonly wanted: Wanted
      readonly since: number | string | undefined
    }
  | { [Op in keyof Ops]: { readonly op: Op } & Ops[Op] }[keyof Ops]
)

/** An invalid frame; `malformed` is true if a client that follows the documentation never sends such a frame. */
type Misread = {
  readonly id: FrameId | undefined
  /** Lists the flaws of the frame. This is slower than detecting that one exists, so it is done on demand. */
  readonly why: () => Rejection
  readonly malformed: boolean
}

const compiled = (frames: Readonly<Record<string, TSchema>>): ReadonlyMap<string, Validator> =>
  new Map(Object.entries(frames).map(([name, schema]) => [name, compileValidator(schema)]))

const channels = compiled(SUBSCRIBE_FRAMES)
const ops = compiled(OP_FRAMES)
const OP_NAMES = ['subscribe', ...ops.keys()].join(', ')
const CHANNEL_NAMES = [...channels.keys()].join(', ')

export function isMisread(read: Request | Misread): read is Misread {
  return 'why' in read
}

/** Number of bytes at the start of a refused frame in which its id is searched for. A refused frame is not parsed. */
const ID_WITHIN = 512
const ID_FIELD = /"id": ?(?:"([^"\\]{0,64})"|([0-9]{1,15})(?![0-9.e]))/

/** Returns the id of a refused frame if it is near the beginning; reads nothing else of the frame. */
export function idOf(bytes: ArrayBuffer): FrameId | undefined {
  const start = Buffer.from(bytes, 0, Math.min(bytes.byteLength, ID_WITHIN)).toString()
  const [, text, number] = ID_FIELD.exec(start) ?? []
  return number === undefined ? text : Number(number)
}

function fit(id: unknown): FrameId | undefined {
  const fits = typeof id === 'string' ? id.length <= 64 : Number.isSafeInteger(id)
  return fits ? (id as FrameId) : undefined
}

export function readFrame(bytes: ArrayBuffer, isBinary: boolean): Request | Misread {
  if (isBinary)
    return misread(
      undefined,
      reject('INVALID_JSON', undefined, 'frames must be text frames with JSON, not binary frames'),
    )
  const { value, rejection } = parseJson(bytes)
  if (rejection !== undefined) return misread(undefined, rejection)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return misread(undefined, reject('INVALID_FIELD', undefined, 'a frame must be a JSON object'))
  }
  const frame = value as Record<string, unknown>
  const id = fit(frame.id)
  const { op } = frame
  if (op === undefined) return misread(id, reject('MISSING_FIELD', 'op'))
  if (op === 'subscribe') return readSubscribe(frame, id)
  const validator = typeof op === 'string' ? ops.get(op) : undefined
  if (validator === undefined) {
    return misread(id, reject('INVALID_FIELD', 'op', `op must be one of ${OP_NAMES}`))
  }
  if (!validator.fits(frame)) return misread(id, () => validator.flaw(frame))
  validator.normalise?.(frame)
  return { ...frame, id } as unknown as Request
}

function misread(id: FrameId | undefined, why: Rejection | (() => Rejection)): Misread {
  return { id, why: typeof why === 'function' ? why : () => why, malformed: true }
}

function readSubscribe(frame: Record<string, unknown>, id: FrameId | undefined): Request | Misread {
  const { channel } = frame
  if (channel === undefined) return misread(id, reject('MISSING_FIELD', 'channel'))
  const validator = typeof channel === 'string' ? channels.get(channel) : undefined
  if (validator === undefined) {
    const detail = `channel must be one of ${CHANNEL_NAMES}`
    return misread(id, reject('INVALID_FIELD', 'channel', detail))
  }
  if (!validator.fits(frame)) return misread(id, () => validator.flaw(frame))
  validator.normalise?.(frame)
  const asked = frame as {
    marketId?: MarketId
    outcome: Outcome
    mode?: string
    maxHz?: number
    implied?: boolean
    trader: Address
    chainId: number
    asset: string
    marketIds?: readonly MarketId[]
    event?: string
    since?: number | string
  }
  const subscription = { op: 'subscribe', id, since: asked.since } as const
  switch (channel as keyof typeof SUBSCRIBE_FRAMES) {
    case 'book': {
      const hz = paceOf(asked.mode, asked.maxHz)
      if (typeof hz === 'object') return misread(id, hz)
      const { marketId, outcome } = asked as { marketId: MarketId; outcome: Outcome }
      const pace = hz === undefined ? {} : { maxHz: hz }
      const implied = asked.implied === true ? ({ implied: true } as const) : {}
      return {
        ...subscription,
        wanted: { channel: 'book', marketId, outcome, ...pace, ...implied },
      }
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
    case 'ticker': {
      const { marketIds, event } = asked as { marketIds?: readonly MarketId[]; event?: string }
      const { chainId } = asked as { chainId?: number }
      if (event === undefined) {
        const wanted = marketIds === undefined ? {} : { marketIds }
        return { ...subscription, wanted: { channel: 'ticker', ...wanted } }
      }
      if (marketIds !== undefined) return misread(id, EVENT_OR_MARKETS)
      const named = { slug: event, ...(chainId === undefined ? {} : { chainId }) }
      return { ...subscription, wanted: { channel: 'ticker', event: named } }
    }
    case 'price':
    case 'quick-market': {
      const wanted = { channel: channel as AssetChannel, asset: asked.asset.toUpperCase() }
      return { ...subscription, wanted }
    }
  }
}

const EVENT_OR_MARKETS = reject(
  'INVALID_FIELD',
  'event',
  'event and marketIds must not be given together',
)

const DEFAULT_HZ: Hz = 10

function paceOf(mode: string | undefined, maxHz: number | undefined): Hz | undefined | Rejection {
  if (mode !== 'conflate') {
    if (maxHz === undefined) return undefined
    return reject('INVALID_FIELD', 'maxHz', 'maxHz is allowed only if mode is conflate')
  }
  const hz = CONFLATED_HZ.find((known) => known === (maxHz ?? DEFAULT_HZ))
  return hz ?? reject('INVALID_FIELD', 'maxHz', `maxHz must be one of ${PACES}`)
}
