/** Orders as the API answers them. */

import Type from 'typebox'
import { CANCELLED_LISTED_MAX } from '#domain/limits.ts'
import { REJECTION_CODES } from '#domain/rejection.ts'
import { type Answer, nextCursor, orNull, outcome, side } from './fields.ts'

export const pendingSize = () =>
  Type.Integer({ description: 'Matched and not settled yet, 6 decimals; left out when it is 0' })

const seenFrom = {
  marketId: Type.Optional(Type.String({ description: 'The market that `seq` is of' })),
  seq: Type.Optional(
    Type.Integer({ description: 'A read with it as `minSeq` sees what was done, on any front' }),
  ),
}

/** The answer to a write names the market and `seq` for the reads that follow it. */
export const SeenFrom = Type.Object(seenFrom)
export type SeenFrom = Answer<typeof SeenFrom>

export const PlacedOrder = Type.Object(
  {
    orderHash: Type.String({ description: 'The EIP-712 digest that was signed' }),
    status: Type.Literal('accepted'),
    matches: Type.Integer({ description: 'Counter-orders matched at once' }),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
    duplicate: Type.Optional(
      Type.Literal(true, { description: 'The same order had been accepted' }),
    ),
    filled: Type.Optional(
      Type.Integer({
        description:
          'Of IOC and FOK: how much was matched at once, 6 decimals; the rest is cancelled',
      }),
    ),
    ...seenFrom,
  },
  { title: 'AcceptedOrder' },
)
export type PlacedOrder = Answer<typeof PlacedOrder>

export const CancelledOrder = Type.Object({
  status: Type.Literal('cancelled'),
  orderHash: Type.String(),
  pendingSize: Type.Optional(pendingSize()),
  ...seenFrom,
})
export type CancelledOrder = Answer<typeof CancelledOrder>

export const CancelledOrders = Type.Object({
  status: Type.Literal('cancelled'),
  orderHashes: Type.Array(Type.String(), {
    description: `Those that were cancelled, at most ${CANCELLED_LISTED_MAX} of them`,
  }),
  count: Type.Integer({ description: 'How many were cancelled' }),
  pending: Type.Optional(
    Type.Array(Type.Object({ orderHash: Type.String(), pendingSize: pendingSize() }), {
      description: 'Those of them that have fills which are not settled',
    }),
  ),
  ...seenFrom,
})
export type CancelledOrders = Answer<typeof CancelledOrders>

export const ErrorShape = Type.Object({
  error: Type.String(),
  code: Type.Enum([...REJECTION_CODES]),
  field: Type.Optional(Type.String()),
})

export const CheckedOrder = Type.Object({
  valid: Type.Boolean(),
  orderHash: orNull(Type.String(), {
    description: 'The digest that the server hashed; null if the values cannot be hashed',
  }),
  recovered: orNull(Type.String(), {
    description: 'The address that signed the digest; null if no key can have made the signature',
  }),
  errors: Type.Array(ErrorShape, { description: 'Everything that is wrong with the order' }),
})
export type CheckedOrder = Answer<typeof CheckedOrder>

export const OpenOrder = Type.Object(
  {
    orderHash: Type.String(),
    marketId: Type.String(),
    side: side(),
    outcome: outcome(),
    price: Type.Integer(),
    size: Type.Integer({ description: 'As signed, 6 decimals' }),
    remainingSize: Type.Integer(),
    filled: Type.Integer(),
    timestamp: Type.Integer({ description: 'When it was placed, Unix seconds' }),
    expiration: Type.Integer({
      description: 'Unix seconds; 9007199254740991 for anything later than that',
    }),
    chainId: Type.Integer(),
    trader: Type.String(),
  },
  { title: 'OpenOrder' },
)
export type OpenOrder = Answer<typeof OpenOrder>

export const OpenOrders = Type.Object({
  orders: Type.Array(OpenOrder),
  count: Type.Integer({ description: 'Open orders in all' }),
  nextCursor,
})
