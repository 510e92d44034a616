/** Orders in answers of the API. */

import Type from 'typebox'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { REJECTION_CODES } from '#domain/rejection.ts'
import { type Answer, growing, nextCursor, orNull, outcome, side } from './fields.ts'

export const pendingSize = () =>
  Type.Integer({ description: 'Matched and not settled yet, 6 decimals; omitted if 0' })

/** Tags that the client attached to the order. */
export const tags = {
  label: Type.Optional(Type.String({ description: 'Label that the client gave the order' })),
  group: Type.Optional(Type.String({ description: 'Group that the client gave the order' })),
}

const seenFrom = {
  marketId: Type.Optional(Type.String({ description: 'The market to which `seq` belongs' })),
  seq: Type.Optional(
    Type.Integer({
      description: 'A read with this value as `minSeq` includes the change, on any front',
    }),
  ),
}

export const receipt = {
  receipt: Type.Optional(
    Type.String({
      description:
        'A signed note which promises that the event will be in the public log. Present if the request has the header ' +
        '`Accept-Receipt: 1`, or on the stream `receipt: true`',
    }),
  ),
}

/** The answer to a write has the market and its `seq`, for later reads with `minSeq`. */
export const SeenFrom = Type.Object(seenFrom)
export type SeenFrom = Answer<typeof SeenFrom>

export const PlacedOrder = Type.Object(
  {
    orderHash: Type.String({ description: 'The EIP-712 digest that was signed' }),
    status: Type.Literal('accepted'),
    matches: Type.Integer({
      description: 'Number of resting orders that the order matched on arrival',
    }),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
    duplicate: Type.Optional(
      Type.Literal(true, { description: 'True if the same order was accepted before' }),
    ),
    filled: Type.Optional(
      Type.Integer({
        description:
          'For IOC and FOK: the size that was matched on arrival, 6 decimals; the rest is cancelled',
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
    description: `Cancelled orders, at most ${CANCELLED_LISTED_MAX}`,
  }),
  count: Type.Integer({ description: 'Number of cancelled orders' }),
  pending: Type.Optional(
    Type.Array(Type.Object({ orderHash: Type.String(), pendingSize: pendingSize() }), {
      description: 'Cancelled orders with fills that are not settled',
    }),
  ),
  ...seenFrom,
})
export type CancelledOrders = Answer<typeof CancelledOrders>

export const DeadmanAnswer = Type.Object({
  status: Type.Enum(['on', 'off']),
  cancelsAtMs: Type.Optional(
    Type.Integer({ description: 'Unix milliseconds: when the orders are cancelled' }),
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
    description: 'The digest that the server computed; null if the values cannot be hashed',
  }),
  recovered: orNull(Type.String(), {
    description: 'The address that signed the digest; null if no key can have made the signature',
  }),
  signer: orNull(Type.Enum(['owner', 'delegate', 'contract']), {
    description:
      '`owner`: the key of the trader signed; `delegate`: a key that the trader appointed; `contract`: the code of ' +
      'the trader’s account accepts the signature (EIP-1271). Null if the signature is not accepted',
  }),
  errors: Type.Array(ErrorShape, { description: 'Every error of the order' }),
})
export type CheckedOrder = Answer<typeof CheckedOrder>

export const OpenOrder = Type.Object(
  {
    orderHash: Type.String(),
    marketId: Type.String(),
    side: side(),
    outcome: outcome(),
    price: Type.Integer(),
    size: Type.Integer({ description: 'Size that the trader signed, 6 decimals' }),
    remainingSize: Type.Integer(),
    filled: Type.Integer(),
    timestamp: Type.Integer({ description: 'When it was placed, Unix seconds' }),
    expiration: Type.Integer({
      description: 'Unix seconds; 9007199254740991 for anything later than that',
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
      description: 'The open part; for an ended order, the part that was not filled',
    }),
    updatedAt: Type.Integer({ description: 'Last change, Unix seconds' }),
    seq: Type.Integer({
      description: 'The market’s sequence number at the last change of the order',
    }),
  },
  { title: 'StoredOrder' },
)
export type StoredOrder = Answer<typeof StoredOrder>

export const OpenOrders = Type.Object({
  orders: Type.Array(OpenOrder),
  count: Type.Integer({ description: 'Number of all open orders' }),
  nextCursor,
})
