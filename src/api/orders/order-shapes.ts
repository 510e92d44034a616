/** Shapes of submitted orders, and the list of open ones; answers are in `protocol/shapes/orders.ts`. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import {
  BATCH_ORDERS_MAX,
  LABEL_CHARS_MAX,
  MAKERS_PER_ORDER_MAX,
  ORDER_EXPIRATION_AHEAD_SEC_MIN,
  PROTECTION_FILLS_MAX,
  PROTECTION_WINDOW_MS_MAX,
  SEQ_WAIT_SEC_MAX,
} from '#domain/limits.ts'
import { PRICE_MAX, PRICE_MIN, SIZE_MAX } from '#domain/money.ts'
import type { OpenOrderPlace, Order, PermitSignature } from '#domain/order.ts'
import { echoOf } from '#domain/order-tags.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { TIMES_IN_FORCE } from '#domain/time-in-force.ts'
import {
  address,
  bytes32,
  oneOf,
  ruledInteger,
  safeInteger,
  uint64,
  uint256,
} from '#http/schemas.ts'
import type { OpenOrder } from '#protocol/market.ts'
import type { OpenOrders } from '#protocol/shapes/orders.ts'

const closed = { additionalProperties: false } as const

export const OrderInput = Type.Object(
  {
    marketId: bytes32<MarketId>({ description: 'The market' }),
    trader: address({ description: 'The wallet that signs' }),
    side: safeInteger({ max: 1, description: '0 = BUY, 1 = SELL' }),
    outcome: safeInteger({ max: 1, description: '0 = YES, 1 = NO' }),
    price: ruledInteger({ min: PRICE_MIN, max: PRICE_MAX }, { description: '6 decimals' }),
    size: ruledInteger({ min: 1, max: SIZE_MAX }, { description: 'Shares, 6 decimals' }),
    nonce: uint64({ description: 'Any number that distinguishes this order from an equal one' }),
    expiration: uint64({
      description: `Unix seconds, at least ${ORDER_EXPIRATION_AHEAD_SEC_MIN} seconds ahead`,
    }),
    makerFeeRecipient: address({ description: 'The zero address' }),
  },
  { ...closed, title: 'Order' },
)

const PermitInput = Type.Object(
  {
    nonce: uint64({
      description:
        "The trader's next permit nonce at the token; if open orders have permits, the first nonce after theirs",
    }),
    value: uint256({
      description: `The amount, as decimal text: at least price × size, rounded up, and ${MAKERS_PER_ORDER_MAX} units more, because each fill is rounded up; never more than \`size\``,
    }),
    deadline: uint64({
      description:
        'Unix seconds, at least the `expiration` of the order plus `limits.permitBeyondExpirationSecondsMin` of `/api/v1/config`',
    }),
    v: safeInteger({ max: 28, description: '27 or 28; 0 and 1 are accepted too' }),
    r: bytes32({ description: '0x and 64 hex digits' }),
    s: bytes32({ description: '0x and 64 hex digits' }),
  },
  {
    ...closed,
    title: 'PermitSignature',
    description:
      'An ERC-2612 permit of the stablecoin, signed by the trader of a buy for the settlement contract, and used just before the first trade of the order settles. A permit that could not pay for the order is refused: 400 `INVALID_PERMIT`. It replaces the existing allowance, so a trader with several open orders should rather approve one allowance for all of them.',
  },
)

export const groupName = () =>
  Type.String({
    pattern: `^[A-Za-z0-9_-]{1,${LABEL_CHARS_MAX}}$`,
    description: `Not signed. A name for some of the trader's orders in a market, which can be cancelled together: 1 to ${LABEL_CHARS_MAX} letters, digits, _ or -`,
  })

const ProtectionInput = Type.Object(
  {
    windowMs: safeInteger({
      min: 1,
      max: PROTECTION_WINDOW_MS_MAX,
      description: 'Window within which fills are counted, in milliseconds',
    }),
    fillsMax: Type.Optional(
      safeInteger({
        min: 1,
        max: PROTECTION_FILLS_MAX,
        description: 'Maximum number of fills in the window',
      }),
    ),
    sharesMax: Type.Optional(
      safeInteger({
        min: 1,
        max: SIZE_MAX,
        description: 'Maximum number of shares filled in the window, 6 decimals',
      }),
    ),
  },
  {
    ...closed,
    title: 'Protection',
    description: `Not signed. When more than \`fillsMax\` fills or \`sharesMax\` shares of the group happen within \`windowMs\`, the market cancels the rest of the group in the same step. The newest order of the group sets its protection`,
  },
)

export const OrderSubmission = Type.Object(
  {
    order: OrderInput,
    signature: Type.String({ description: 'The EIP-712 signature of the order: 65 bytes as hex' }),
    permitSignature: Type.Optional(PermitInput),
    postOnly: Type.Optional(
      Type.Boolean({
        description:
          'Not signed. True to reject the order if it would match on arrival: 422 `POST_ONLY_WOULD_MATCH`',
      }),
    ),
    timeInForce: Type.Optional(
      oneOf(TIMES_IN_FORCE, {
        description:
          'Not signed. `GTC`, the default: the unmatched rest stays in the book. `IOC`: the unmatched rest ' +
          'is cancelled, and `filled` is the matched size. `FOK`: the whole order is filled on arrival, or none of it. If IOC ' +
          'fills nothing, or FOK not all, the order is rejected: 422 `ORDER_NOT_FILLED`',
      }),
    ),
    bookByMs: Type.Optional(
      safeInteger({
        min: 1,
        description:
          'Not signed. Unix milliseconds: if the market would handle the order after this time, the order is refused: 422 `TOO_LATE`',
      }),
    ),
    label: Type.Optional(
      Type.String({
        pattern: `^[ -~]{1,${LABEL_CHARS_MAX}}$`,
        description: `Not signed. 1 to ${LABEL_CHARS_MAX} printable ASCII characters, repeated in every answer and message about the order`,
      }),
    ),
    group: Type.Optional(groupName()),
    protection: Type.Optional(ProtectionInput),
    replaces: Type.Optional(
      bytes32<OrderHash>({
        description:
          'Not signed. The hash of an open order of the same trader and market, which is cancelled in the same step. If it is not open, the new order is refused: 409 `ORDER_CLOSED`',
      }),
    ),
    replaceMode: Type.Optional(
      oneOf(['ifOpen', 'always'], {
        description:
          'Not signed. `ifOpen` by default; `always` places the order even if the other one is not open',
      }),
    ),
  },
  { ...closed, title: 'OrderSubmission' },
)
export type OrderSubmission = Static<typeof OrderSubmission>

const batchSize = { minItems: 1, maxItems: BATCH_ORDERS_MAX }

/** Each item is validated separately, so that one bad order does not affect the others. */
export const OrderBatch = Type.Object({ orders: Type.Array(Type.Unknown(), batchSize) }, closed)

/** Schema of each item, for the document. */
export const ShownOrderBatch = Type.Object(
  { orders: Type.Array(OrderSubmission, batchSize) },
  closed,
)

/** Returns the order of a valid submission. */
export function orderOf(submission: OrderSubmission): Order {
  return submission.order as Order
}

/** Returns the permit of a submission, `v` as 27 or 28; undefined if its `v` is not 0, 1, 27 or 28. */
export function permitOf(
  permit: NonNullable<OrderSubmission['permitSignature']>,
): PermitSignature | undefined {
  const v = permit.v < 2 ? permit.v + 27 : permit.v
  if (v !== 27 && v !== 28) return undefined
  return { ...permit, v }
}

const PLACE = /^([0-9]{1,15})\.(0x[0-9a-f]{64})$/

/** Parses the position in a `nextCursor`. */
export function readOrderPlace(
  cursor: string | undefined,
): { readonly after?: OpenOrderPlace } | Rejection {
  if (cursor === undefined) return {}
  const [, placedAtMs, orderHash] = PLACE.exec(cursor) ?? []
  if (orderHash === undefined) {
    return reject('INVALID_FIELD', 'cursor', 'cursor must be the nextCursor of an earlier page')
  }
  return { after: { placedAtMs: Number(placedAtMs), orderHash: orderHash as OrderHash } }
}

/** Returns one page of at most `limit` orders, of `count` in all. */
export function openOrdersBody(
  orders: readonly OpenOrder[],
  { count, limit }: { readonly count: number; readonly limit: number },
  chainIdOf: (marketId: MarketId) => number,
): Static<typeof OpenOrders> {
  const last = orders.length < limit ? undefined : orders.at(-1)
  return {
    orders: orders.map((order) => ({
      orderHash: order.orderHash,
      marketId: order.marketId,
      side: order.side,
      outcome: order.outcome,
      price: order.price,
      size: order.size,
      remainingSize: order.remaining,
      filled: order.size - order.remaining,
      timestamp: Math.floor(order.placedAtMs / 1_000),
      expiration: order.expiresAtSec,
      chainId: chainIdOf(order.marketId),
      trader: checksumAddress(order.trader),
      ...echoOf(order),
    })),
    count,
    nextCursor: last === undefined ? null : orderCursor(last),
  }
}

/** Returns the cursor for the position after an order. */
export function orderCursor({ placedAtMs, orderHash }: OpenOrderPlace): string {
  return `${placedAtMs}.${orderHash}`
}

export const sideName = () => oneOf(['buy', 'sell'], { description: 'The side of the order' })
export const orderHashParam = () => bytes32<OrderHash>({ description: 'The order hash' })
export const marketIdParam = () => bytes32<MarketId>({ description: 'The market id' })

/** Sequence number that the front must have reached before it answers. */
export function minSeqParam() {
  return Type.Optional(
    safeInteger({
      min: 0,
      description:
        'The `seq` of an earlier answer to a write in this market: the read waits for it, at most ' +
        `${SEQ_WAIT_SEC_MAX} seconds; then 503 \`SEQ_NOT_REACHED\``,
    }),
  )
}
