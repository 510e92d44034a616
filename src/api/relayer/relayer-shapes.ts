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

const chain = { chainId: ruledInteger(CHAIN_IDS, { description: 'Chain id' }) }
const owner = { owner: address('Address of the owner, who signs the operation') }
const marketAddress = { marketAddress: address('Address of the market’s contract') }
const permit = {
  deadline: uint256({
    description: 'Time until which the signature is valid, in Unix seconds, as decimal text',
  }),
  v: oneOfTwo(27, 28),
  r: scalar({ description: 'First half of the signature: 0x and 64 hex digits' }),
  s: scalar({ description: 'Second half of the signature: 0x and 64 hex digits' }),
}

export const CtfApprovalBody = Type.Object(
  {
    ...chain,
    ...owner,
    operator: address('Address of the settlement contract'),
    approved: Type.Boolean({ description: 'True to approve, false to revoke the approval' }),
    ...permit,
  },
  closed,
)

export const StablecoinPermitBody = Type.Object(
  {
    ...chain,
    ...owner,
    spender: address('Address of the settlement contract, or of the conditional tokens contract'),
    value: uint256({
      description:
        'Allowance in millionths of the stablecoin, as decimal text; 2^256 - 1 means no limit',
    }),
    ...permit,
  },
  closed,
)

const redeemed = {
  collateralToken: address('Address of the stablecoin'),
  parentCollectionId: bytes32({
    description: 'Must be 0x and 64 zeros, because markets have no parent collection',
  }),
  conditionId: bytes32<MarketId>({ description: 'Market id' }),
  indexSets: Type.Array(uint256(), {
    minItems: 1,
    maxItems: 2,
    description: 'Outcomes to redeem, as index sets: "1" is YES, "2" is NO',
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

/**
 * Body of a batch of redemptions. The maximum number of redemptions is a setting, so the relayer's rules check it
 * instead of this schema.
 */
export const BatchCtfRedemptionBody = Type.Object(
  { ...chain, ...owner, redemptions: Type.Array(RedemptionItem, { maxItems: 1_000 }) },
  closed,
)

export const ProposeResolutionBody = Type.Object(
  {
    ...chain,
    ...marketAddress,
    proposer: address('Address of the account that signs the operation'),
    outcome: Type.Boolean({ description: 'Proposed outcome: true = YES, false = NO' }),
    ...permit,
    bondPermitDeadline: Type.Optional(
      uint256({
        description: 'Deadline of the permit for the bond, in Unix seconds, as decimal text',
      }),
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
    settler: address('Address of the account that signs the operation'),
    winningOutcome: oneOfTwo(0, 1, { description: 'Winning outcome: 0 = YES, 1 = NO' }),
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
    nonce: uint64({
      description: 'Lowest nonce that stays valid; all orders with a lower nonce are withdrawn',
    }),
    ...permit,
  },
  closed,
)

export const SetDelegateBody = Type.Object(
  {
    ...chain,
    ...owner,
    delegate: address('Address of the key that can sign for the owner'),
    until: uint64({
      description: 'End of the delegation, in Unix seconds; 0 revokes the delegate',
    }),
    maxOrderSize: uint64({
      description:
        'Largest size of an order of the delegate, in millionths of a share; 0 means no limit',
    }),
    maxOpenNotional: uint64({
      description:
        'Maximum sum of price × open size over all open orders that the delegate signed, in ' +
        'millionths of the stablecoin; 0 means no limit',
    }),
    markets: Type.Array(bytes32<MarketId>({ description: 'Market id' }), {
      maxItems: 1_000,
      description:
        `Ids of the markets in which the delegate can trade, at most ${DELEGATE_MARKETS_MAX}; empty to allow ` +
        'all markets',
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

/** Returns the operation of a request. Rejects a request that has only some of the four fields of the bond's permit. */
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
    const detail = `${first[0]} is required: give all of bondPermitDeadline, bondV, bondR and bondS, or none`
    return reject('MISSING_FIELD', first[0], detail)
  }
  const bond = { deadline: bondPermitDeadline, v: bondV, r: bondR, s: bondS } as SignedPermit
  return { ...operation, bond }
}
