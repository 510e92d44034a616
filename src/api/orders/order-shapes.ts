/**
 * Shapes of submitted orders and of the list of open orders. The shapes of answers are in `protocol/shapes/orders.ts`.
 */

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
    marketId: bytes32<MarketId>({ description: 'Market id' }),
    trader: address({ description: 'Address of the trader, who signs the order' }),
    side: safeInteger({ max: 1, description: 'Side: 0 = BUY, 1 = SELL' }),
    outcome: safeInteger({ max: 1, description: 'Outcome: 0 = YES, 1 = NO' }),
    price: ruledInteger(
      { min: PRICE_MIN, max: PRICE_MAX },
      { description: 'Limit price, in millionths of a dollar' },
    ),
    size: ruledInteger(
      { min: 1, max: SIZE_MAX },
      { description: 'Number of shares, in millionths of a share' },
    ),
    nonce: uint64({
      description:
        'Number that makes this order differ from other orders with the same terms. It must not ' +
        'be below the nonce of the trader’s last `cancel-all-before`, which has withdrawn all ' +
        'orders with lower nonces',
    }),
    expiration: uint64({
      description:
        `Time at which the order expires, in Unix seconds; at least ${ORDER_EXPIRATION_AHEAD_SEC_MIN} ` +
        'seconds in the future',
    }),
    makerFeeRecipient: address({ description: 'Must be the zero address' }),
  },
  { ...closed, title: 'Order' },
)

const PermitInput = Type.Object(
  {
    nonce: uint64({
      description:
        'Nonce of the permit at the stablecoin: the trader’s next permit nonce. If open orders ' +
        'of the trader already have permits, it must be the first nonce after the nonces of ' +
        'these permits',
    }),
    value: uint256({
      description:
        'Permitted amount in millionths of the stablecoin, as decimal text. It must be at least ' +
        `the smaller of two amounts: \`size\`, and price × size (rounded up) plus ${MAKERS_PER_ORDER_MAX}. ` +
        'The surplus is there because the cost of each fill is rounded up. ' +
        'If open orders of the trader already have permits, the amount must also ' +
        'cover all other buys of the trader, with or without permits',
    }),
    deadline: uint64({
      description:
        'Deadline of the permit, in Unix seconds: at least `expiration` of the order plus ' +
        '`limits.permitBeyondExpirationSecondsMin` of `/api/v1/config`',
    }),
    v: safeInteger({
      max: 28,
      description: 'Recovery value of the signature: 27 or 28; 0 and 1 are also accepted',
    }),
    r: bytes32({ description: 'First half of the signature: 0x and 64 hex digits' }),
    s: bytes32({ description: 'Second half of the signature: 0x and 64 hex digits' }),
  },
  {
    ...closed,
    title: 'PermitSignature',
    description:
      'An ERC-2612 permit of the stablecoin for a buy. The trader signs it for the settlement ' +
      'contract, which uses it just before the order’s first trade settles. If the permit does ' +
      'not cover the order, the order is rejected with 400 (`INVALID_PERMIT` or ' +
      '`INVALID_FIELD`). The permit replaces the existing allowance. So a trader with several ' +
      'open orders should approve one allowance for all of them, and send no permits.',
  },
)

export const groupName = () =>
  Type.String({
    pattern: `^[A-Za-z0-9_-]{1,${LABEL_CHARS_MAX}}$`,
    description:
      'Not signed. Name of a group of the trader’s orders in a market; one request can cancel all orders of ' +
      `a group. The name has 1 to ${LABEL_CHARS_MAX} letters, digits, \`_\` or \`-\``,
  })

const ProtectionInput = Type.Object(
  {
    windowMs: safeInteger({
      min: 1,
      max: PROTECTION_WINDOW_MS_MAX,
      description: 'Window in which fills are counted, in milliseconds',
    }),
    fillsMax: Type.Optional(
      safeInteger({
        min: 1,
        max: PROTECTION_FILLS_MAX,
        description: 'Maximum number of fills of the group within the window',
      }),
    ),
    sharesMax: Type.Optional(
      safeInteger({
        min: 1,
        max: SIZE_MAX,
        description:
          'Maximum number of filled shares of the group within the window, in millionths of a share',
      }),
    ),
  },
  {
    ...closed,
    title: 'Protection',
    description:
      'Not signed. Limits the fills of the order’s group. If the group has more than `fillsMax` fills, or ' +
      'more than `sharesMax` filled shares, within `windowMs`, the market immediately cancels all remaining ' +
      'orders of the group. The newest order of the group sets the limits for the whole group',
  },
)

export const OrderSubmission = Type.Object(
  {
    order: OrderInput,
    signature: Type.String({ description: 'EIP-712 signature of the order, 65 bytes as hex' }),
    permitSignature: Type.Optional(PermitInput),
    postOnly: Type.Optional(
      Type.Boolean({
        description:
          'Not signed. True to reject the order with 422 `POST_ONLY_WOULD_MATCH` if it would match on arrival',
      }),
    ),
    timeInForce: Type.Optional(
      oneOf(TIMES_IN_FORCE, {
        description:
          'Not signed. `GTC` (the default): the part that does not match on arrival stays in the book. ' +
          '`IOC`: that part is cancelled. `FOK`: the order is filled completely on arrival, or not at all. ' +
          'An IOC order that fills nothing, or an FOK order that is not filled completely, is rejected with ' +
          '422 `ORDER_NOT_FILLED`',
      }),
    ),
    bookByMs: Type.Optional(
      safeInteger({
        min: 1,
        description:
          'Not signed. Latest time at which the market may process the order, in Unix milliseconds; after ' +
          'this time, the order is rejected with 422 `TOO_LATE`',
      }),
    ),
    label: Type.Optional(
      Type.String({
        pattern: `^[ -~]{1,${LABEL_CHARS_MAX}}$`,
        description:
          `Not signed. The client’s own name for the order, 1 to ${LABEL_CHARS_MAX} printable ASCII ` +
          'characters. Every answer and message about the order repeats it',
      }),
    ),
    group: Type.Optional(groupName()),
    protection: Type.Optional(ProtectionInput),
    replaces: Type.Optional(
      bytes32<OrderHash>({
        description:
          'Not signed. Hash of an open order of the same trader in the same market. The market cancels that ' +
          'order and places the new one in one step. If that order is not open, the new order is rejected ' +
          'with 409 `ORDER_CLOSED`',
      }),
    ),
    replaceMode: Type.Optional(
      oneOf(['ifOpen', 'always'], {
        description:
          'Not signed. What happens if the order in `replaces` is not open. `ifOpen` (the ' +
          'default): the new order is rejected. `always`: the new order is placed',
      }),
    ),
  },
  { ...closed, title: 'OrderSubmission' },
)
export type OrderSubmission = Static<typeof OrderSubmission>

const batchSize = { minItems: 1, maxItems: BATCH_ORDERS_MAX }

/**
 * Batch of orders, as the route validates it. Each item is validated separately, so that one bad order does not affect
 * the other orders.
 */
export const OrderBatch = Type.Object({ orders: Type.Array(Type.Unknown(), batchSize) }, closed)

/** Batch of orders, as the OpenAPI document shows it, with the schema of each item. */
export const ShownOrderBatch = Type.Object(
  { orders: Type.Array(OrderSubmission, batchSize) },
  closed,
)

/** Returns the order of a valid submission. */
export function orderOf(submission: OrderSubmission): Order {
  return submission.order as Order
}

/**
 * Returns the permit of a submission, with `v` as 27 or 28. Returns undefined if the submitted `v` is not 0, 1, 27 or
 * 28.
 */
export function permitOf(
  permit: NonNullable<OrderSubmission['permitSignature']>,
): PermitSignature | undefined {
  const v = permit.v < 2 ? permit.v + 27 : permit.v
  if (v !== 27 && v !== 28) return undefined
  return { ...permit, v }
}

const PLACE = /^([0-9]{1,15})\.(0x[0-9a-f]{64})$/

/** Parses the list position in a cursor. Rejects a text that is not the `nextCursor` of a page. */
export function readOrderPlace(
  cursor: string | undefined,
): { readonly after?: OpenOrderPlace } | Rejection {
  if (cursor === undefined) return {}
  const [, placedAtMs, orderHash] = PLACE.exec(cursor) ?? []
  if (orderHash === undefined) {
    return reject(
      'INVALID_FIELD',
      'cursor',
      'cursor must be the value of nextCursor from an earlier page',
    )
  }
  return { after: { placedAtMs: Number(placedAtMs), orderHash: orderHash as OrderHash } }
}

/**
 * Returns the response for one page of open orders. `limit` is the page size, `count` the number of orders on all
 * pages.
 */
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

export const sideName = () => oneOf(['buy', 'sell'], { description: 'Side of the order' })
export const orderHashParam = () => bytes32<OrderHash>({ description: 'Hash of the order' })
export const marketIdParam = () => bytes32<MarketId>({ description: 'Market id' })

/** Returns the schema of `minSeq`, the sequence number that the front must have reached before it answers. */
export function minSeqParam() {
  return Type.Optional(
    safeInteger({
      min: 0,
      description:
        '`seq` from the answer to an earlier write in this market. The server waits until its data includes ' +
        `that write, and then answers. If the wait takes more than ${SEQ_WAIT_SEC_MAX} seconds, the answer ` +
        'is 503 `SEQ_NOT_REACHED`',
    }),
  )
}
