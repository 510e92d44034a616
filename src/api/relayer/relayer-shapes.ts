/** Shapes of relayed operations in the API, and their conversion to operations. */

import Type, { type Static } from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { DELEGATE_MARKETS_MAX, RELAYED_CANCELLATIONS_MAX } from '#domain/limits.ts'
import type { Order } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type {
  BatchCtfRedemption,
  CancelAllBefore,
  CancelOrders,
  CtfApproval,
  CtfRedemption,
  ProposeResolution,
  Redemption,
  SetDelegate,
  SettleMarket,
  SignedPermit,
  StablecoinPermit,
} from '#domain/relay.ts'
import {
  address as anyAddress,
  bytes32,
  oneOfTwo,
  ruledInteger,
  type ScalarOptions,
  saying,
  uint64,
  uint256,
} from '#http/schemas.ts'
import { OrderInput } from '../orders/order-shapes.ts'

const closed = { additionalProperties: false } as const
const CHAIN_IDS = { min: 1, max: Number.MAX_SAFE_INTEGER }

const address = (description: string) =>
  saying('Invalid address format', anyAddress({ description }))
const scalar = (options: ScalarOptions) => saying('Invalid signature format', bytes32(options))

const chain = { chainId: ruledInteger(CHAIN_IDS, { description: 'The chain' }) }
const owner = { owner: address('Address of the owner, who signs') }
const marketAddress = { marketAddress: address("The market's contract") }
const permit = {
  deadline: uint256({
    description: 'Time until which the signature is valid, Unix seconds as text',
  }),
  v: oneOfTwo(27, 28),
  r: scalar({ description: '0x and 64 hex digits' }),
  s: scalar({ description: '0x and 64 hex digits' }),
}

export const CtfApprovalBody = Type.Object(
  {
    ...chain,
    ...owner,
    operator: address('The settlement contract'),
    approved: Type.Boolean({ description: 'true approves, false revokes' }),
    ...permit,
  },
  closed,
)

export const StablecoinPermitBody = Type.Object(
  {
    ...chain,
    ...owner,
    spender: address('The settlement contract, or the contract of the conditional tokens'),
    value: uint256({ description: 'As decimal text; 2^256 - 1 means no limit' }),
    ...permit,
  },
  closed,
)

const redeemed = {
  collateralToken: address('The stablecoin'),
  parentCollectionId: bytes32({ description: 'Zero: markets have no parent collection' }),
  conditionId: bytes32<MarketId>({ description: 'The market id' }),
  indexSets: Type.Array(uint256(), {
    minItems: 1,
    maxItems: 2,
    description: '"1" is YES, "2" is NO',
  }),
}

export const CtfRedemptionBody = Type.Object(
  {
    ...chain,
    ...owner,
    ...redeemed,
    marketAddress: Type.Optional(marketAddress.marketAddress),
    ...permit,
  },
  closed,
)

const RedemptionItem = Type.Object({ ...redeemed, ...marketAddress, ...permit }, closed)

/** The maximum is a setting, so the rules check it, not this schema. */
export const BatchCtfRedemptionBody = Type.Object(
  { ...chain, ...owner, redemptions: Type.Array(RedemptionItem, { maxItems: 1_000 }) },
  closed,
)

export const ProposeResolutionBody = Type.Object(
  {
    ...chain,
    ...marketAddress,
    proposer: address('The account that signs'),
    outcome: Type.Boolean({ description: 'true = YES, false = NO' }),
    ...permit,
    bondPermitDeadline: Type.Optional(
      uint256({ description: 'Deadline of the permit for the bond, Unix seconds as text' }),
    ),
    bondV: Type.Optional(permit.v),
    bondR: Type.Optional(permit.r),
    bondS: Type.Optional(permit.s),
  },
  closed,
)

export const SettleMarketBody = Type.Object(
  {
    ...chain,
    ...marketAddress,
    settler: address('The account that signs'),
    winningOutcome: oneOfTwo(0, 1, { description: '0 = YES, 1 = NO' }),
    ...permit,
  },
  closed,
)

export const CancelOrdersBody = Type.Object(
  {
    ...chain,
    ...owner,
    orders: Type.Array(OrderInput, {
      maxItems: 1_000,
      description: `The orders as they were signed, at most ${RELAYED_CANCELLATIONS_MAX}`,
    }),
    ...permit,
  },
  closed,
)

export const CancelAllBeforeBody = Type.Object(
  {
    ...chain,
    ...owner,
    nonce: uint64({ description: 'Orders with a lower nonce are withdrawn' }),
    ...permit,
  },
  closed,
)

export const SetDelegateBody = Type.Object(
  {
    ...chain,
    ...owner,
    delegate: address('The key that may sign for the owner'),
    until: uint64({ description: 'Unix seconds; 0 revokes' }),
    maxOrderSize: uint64({ description: 'Largest order in shares, 6 decimals; 0: no limit' }),
    maxOpenNotional: uint64({
      description:
        'Largest sum of price × open size of the delegate’s open orders, 6 decimals; 0: no limit',
    }),
    markets: Type.Array(bytes32<MarketId>({ description: 'A market id' }), {
      maxItems: 1_000,
      description: `Markets in which the delegate may trade, at most ${DELEGATE_MARKETS_MAX}; empty for all`,
    }),
    ...permit,
  },
  closed,
)

export function ctfApprovalOf(body: Static<typeof CtfApprovalBody>): CtfApproval {
  return { kind: 'ctf-approval', ...body }
}

export function stablecoinPermitOf(body: Static<typeof StablecoinPermitBody>): StablecoinPermit {
  return { kind: 'stablecoin-permit', ...body }
}

export function ctfRedemptionOf(body: Static<typeof CtfRedemptionBody>): CtfRedemption {
  return { kind: 'ctf-redemption', ...body } as CtfRedemption
}

export function batchCtfRedemptionOf(
  body: Static<typeof BatchCtfRedemptionBody>,
): BatchCtfRedemption {
  const redemptions: readonly Redemption[] = body.redemptions
  return { kind: 'batch-ctf-redemption', ...body, redemptions }
}

export function settleMarketOf(body: Static<typeof SettleMarketBody>): SettleMarket {
  const { settler, ...rest } = body
  return { kind: 'settle-market', ...rest, owner: settler }
}

export function cancelOrdersOf(body: Static<typeof CancelOrdersBody>): CancelOrders {
  const orders = body.orders as readonly object[] as readonly Order[]
  return { kind: 'cancel-orders', ...body, orders }
}

export function cancelAllBeforeOf(body: Static<typeof CancelAllBeforeBody>): CancelAllBefore {
  return { kind: 'cancel-all-before', ...body }
}

export function setDelegateOf(body: Static<typeof SetDelegateBody>): SetDelegate {
  return { kind: 'set-delegate', ...body }
}

/** The four fields of the bond must be given together. */
export function proposeResolutionOf(
  body: Static<typeof ProposeResolutionBody>,
): ProposeResolution | Rejection {
  const { proposer, bondPermitDeadline, bondV, bondR, bondS, ...rest } = body
  const fields = { bondPermitDeadline, bondV, bondR, bondS }
  const missing = Object.entries(fields).filter(([, value]) => value === undefined)
  const operation: ProposeResolution = { kind: 'propose-resolution', ...rest, owner: proposer }
  if (missing.length === 4) return operation
  const [first] = missing
  if (first !== undefined) {
    const detail = `${first[0]} is required: the fields of the bond's permit go together`
    return reject('MISSING_FIELD', first[0], detail)
  }
  const bond = { deadline: bondPermitDeadline, v: bondV, r: bondR, s: bondS } as SignedPermit
  return { ...operation, bond }
}
