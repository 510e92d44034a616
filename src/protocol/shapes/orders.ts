/** Orders in answers of the API. */

import Type from 'typebox'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { REJECTION_CODES } from '#domain/rejection.ts'
import { type Answer, growing, nextCursor, orNull, outcome, side } from './fields.ts'

export const pendingSize = () =>
  Type.Integer({
    description: 'Size that is matched and not settled yet, in millionths of a share; absent if 0',
  })

/** Tags that the client attached to the order. */
export const tags = {
  label: Type.Optional(
    Type.String({ description: 'Label that the client gave the order; absent if it gave none' }),
  ),
  group: Type.Optional(
    Type.String({ description: 'Group that the client gave the order; absent if it gave none' }),
  ),
}

const seenFrom = {
  marketId: Type.Optional(Type.String({ description: 'Market that `seq` belongs to' })),
  seq: Type.Optional(
    Type.Integer({
      description:
        'Sequence number, in the market, of the change that this request made. A read with this ' +
        'value as `minSeq` includes the change, on every server of the exchange',
    }),
  ),
}

export const receipt = {
  receipt: Type.Optional(
    Type.String({
      description:
        'Signed promise of the exchange that the public log will contain this order or this ' +
        'cancel. Present only if the exchange publishes its log, and if the request has the ' +
        'header `Accept-Receipt: 1`, or `receipt: true` on the stream',
    }),
  ),
}

/** Fields in the answer to a write: the market and its `seq`, for later reads with `minSeq`. */
export const SeenFrom = Type.Object(seenFrom)
export type SeenFrom = Answer<typeof SeenFrom>

export const PlacedOrder = Type.Object(
  {
    orderHash: Type.String({ description: 'The order’s EIP-712 digest, which the trader signed' }),
    status: Type.Literal('accepted'),
    matches: Type.Integer({
      description: 'Number of resting orders that the order matched on arrival',
    }),
    timestamp: Type.Integer({
      description: 'Time at which the exchange accepted the order, in Unix seconds',
    }),
    duplicate: Type.Optional(
      Type.Literal(true, {
        description: 'True if the exchange had accepted the same order before; absent otherwise',
      }),
    ),
    filled: Type.Optional(
      Type.Integer({
        description:
          'Size that was matched on arrival, in millionths of a share; the rest is cancelled. Present only ' +
          'if `timeInForce` is IOC or FOK',
      }),
    ),
    ...tags,
    ...seenFrom,
    ...receipt,
  },
  { title: 'AcceptedOrder' },
)
export type PlacedOrder = Answer<typeof PlacedOrder>

export const CancelledOrder = Type.Object({
  status: Type.Literal('cancelled'),
  orderHash: Type.String(),
  pendingSize: Type.Optional(pendingSize()),
  ...seenFrom,
  ...receipt,
})
export type CancelledOrder = Answer<typeof CancelledOrder>

export const CancelledOrders = Type.Object({
  status: Type.Literal('cancelled'),
  orderHashes: Type.Array(Type.String(), {
    description: `Hashes of the cancelled orders, at most ${CANCELLED_LISTED_MAX}`,
  }),
  count: Type.Integer({ description: 'Number of cancelled orders' }),
  pending: Type.Optional(
    Type.Array(Type.Object({ orderHash: Type.String(), pendingSize: pendingSize() }), {
      description: 'Cancelled orders that have unsettled fills; absent if there are none',
    }),
  ),
  ...seenFrom,
})
export type CancelledOrders = Answer<typeof CancelledOrders>

export const DeadmanAnswer = Type.Object({
  status: Type.Enum(['on', 'off']),
  cancelsAtMs: Type.Optional(
    Type.Integer({
      description:
        'Time at which the orders will be cancelled, in Unix milliseconds; absent if the switch is off',
    }),
  ),
})
export type DeadmanAnswer = Answer<typeof DeadmanAnswer>

export const ErrorShape = Type.Object({
  error: Type.String(),
  code: Type.Enum([...REJECTION_CODES]),
  field: Type.Optional(Type.String()),
})

export const CheckedOrder = Type.Object({
  valid: Type.Boolean(),
  orderHash: orNull(Type.String(), {
    description:
      'EIP-712 digest of the order, computed by the server; null if it cannot be computed, ' +
      'because a field is invalid or the market is unknown',
  }),
  recovered: orNull(Type.String(), {
    description: 'Address recovered from the signature; null if no address can be recovered',
  }),
  signer: orNull(Type.Enum(['owner', 'delegate', 'contract']), {
    description:
      'Who signed the order. `owner`: the trader; `delegate`: a delegate of the trader; `contract`: the ' +
      'trader’s contract account accepts the signature (EIP-1271). Null if the signature is not valid',
  }),
  errors: Type.Array(ErrorShape, { description: 'All errors of the order; empty if it is valid' }),
})
export type CheckedOrder = Answer<typeof CheckedOrder>

export const OpenOrder = Type.Object(
  {
    orderHash: Type.String(),
    marketId: Type.String(),
    side: side(),
    outcome: outcome(),
    price: Type.Integer(),
    size: Type.Integer({ description: 'Size of the order as signed, in millionths of a share' }),
    remainingSize: Type.Integer(),
    filled: Type.Integer(),
    timestamp: Type.Integer({ description: 'Time at which the order was placed, in Unix seconds' }),
    expiration: Type.Integer({
      description:
        'Time at which the order expires, in Unix seconds. If the signed time is later than ' +
        '9007199254740991 (2^53 − 1), this field has that value',
    }),
    chainId: Type.Integer(),
    trader: Type.String(),
    ...tags,
  },
  { title: 'OpenOrder' },
)
export type OpenOrder = Answer<typeof OpenOrder>

/** States of an order in the database. */
export const STORED_STATUSES = [
  'open',
  'filled',
  'cancelled',
  'expired',
  'unfunded',
  'self-trade',
  'market-closed',
] as const

/** An order from the database, open or ended. */
export const StoredOrder = Type.Object(
  {
    ...OpenOrder.properties,
    status: growing(STORED_STATUSES),
    remainingSize: Type.Integer({
      description: 'Size that is not filled, in millionths of a share',
    }),
    updatedAt: Type.Integer({ description: 'Time of the order’s last change, in Unix seconds' }),
    seq: Type.Integer({
      description: 'Market sequence number of the order’s last change',
    }),
  },
  { title: 'StoredOrder' },
)
export type StoredOrder = Answer<typeof StoredOrder>

export const OpenOrders = Type.Object({
  orders: Type.Array(OpenOrder),
  count: Type.Integer({ description: 'Number of all open orders, on all pages' }),
  nextCursor,
})
