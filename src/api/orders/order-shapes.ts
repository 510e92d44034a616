/** Orders as they are submitted, and the list of open ones; answers are in `protocol/shapes/orders.ts`. */

import Type, { type Static } from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import {
  BATCH_ORDERS_MAX,
  MAKERS_PER_ORDER_MAX,
  ORDER_EXPIRATION_AHEAD_SEC_MIN,
  SEQ_WAIT_SEC_MAX,
} from '#domain/limits.ts'
import { PRICE_MAX, PRICE_MIN, SIZE_MAX } from '#domain/money.ts'
import type { OpenOrderPlace, Order, PermitSignature } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
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
    nonce: uint64({ description: 'Any number that tells this order from an equal one' }),
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
        "The trader's next nonce of the token, or the first nonce after those that open orders hold",
    }),
    value: uint256({
      description: `The amount, as decimal text: at least price × size, rounded up, and ${MAKERS_PER_ORDER_MAX} units more, because each fill is rounded up; never more than \`size\``,
    }),
    deadline: uint64({
      description:
        'Unix seconds, at least the `expiration` of the order plus `limits.permitBeyondExpirationSecondsMin` of `/api/v1/config`',
    }),
    v: safeInteger({ max: 28, description: '27 or 28; 0 and 1 are taken too' }),
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

export const OrderSubmission = Type.Object(
  {
    order: OrderInput,
    signature: Type.String({ description: 'The 65-byte EIP-712 signature as hex' }),
    permitSignature: Type.Optional(PermitInput),
    postOnly: Type.Optional(
      Type.Boolean({
        description:
          'Not signed. An order that would be matched at once is refused: 422 `POST_ONLY_WOULD_MATCH`',
      }),
    ),
    timeInForce: Type.Optional(
      oneOf(['GTC', 'IOC', 'FOK'], {
        description:
          'Not signed. `GTC`, unless said otherwise: what is not matched rests. `IOC`: what is not ' +
          'matched at once is cancelled, and `filled` says how much was. `FOK`: all of it at once, or ' +
          'nothing. What fills nothing, or of FOK not all, is refused: 422 `ORDER_NOT_FILLED`',
      }),
    ),
  },
  { ...closed, title: 'OrderSubmission' },
)
export type OrderSubmission = Static<typeof OrderSubmission>

const batchSize = { minItems: 1, maxItems: BATCH_ORDERS_MAX }

/** Each item is checked on its own, so that one bad order does not take the others down. */
export const OrderBatch = Type.Object({ orders: Type.Array(Type.Unknown(), batchSize) }, closed)

/** What each item should be, for the document. */
export const ShownOrderBatch = Type.Object(
  { orders: Type.Array(OrderSubmission, batchSize) },
  closed,
)

/** The order of a submission that fits its schema. */
export function orderOf(submission: OrderSubmission): Order {
  return submission.order as Order
}

/** The permit of a submission, `v` as 27 or 28; undefined when its `v` is none of the four. */
export function permitOf(
  permit: NonNullable<OrderSubmission['permitSignature']>,
): PermitSignature | undefined {
  const v = permit.v < 2 ? permit.v + 27 : permit.v
  if (v !== 27 && v !== 28) return undefined
  return { ...permit, v }
}

const PLACE = /^([0-9]{1,15})\.(0x[0-9a-f]{64})$/

/** The place that a page before ended at, as `nextCursor` told it. */
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

/** One page of at most `limit` orders, of `count` in all. */
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
    })),
    count,
    nextCursor: last === undefined ? null : orderCursor(last),
  }
}

/** The place behind an order, as a client hands it back. */
export function orderCursor({ placedAtMs, orderHash }: OpenOrderPlace): string {
  return `${placedAtMs}.${orderHash}`
}

export const sideName = () => oneOf(['buy', 'sell'], { description: 'The side of the order' })
export const orderHashParam = () => bytes32<OrderHash>({ description: 'The order hash' })
export const marketIdParam = () => bytes32<MarketId>({ description: 'The market id' })

/** The `seq` that a read has to have reached. */
export function minSeqParam() {
  return Type.Optional(
    safeInteger({
      min: 0,
      description:
        `A \`seq\` of this market, of the answer to a write: it is waited for, at most ${SEQ_WAIT_SEC_MAX} seconds; ` +
        'then 503 `SEQ_NOT_REACHED`',
    }),
  )
}
