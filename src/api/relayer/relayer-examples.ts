/** Examples of relayed operations for the OpenAPI document. They have the right shape; no wallet signed them. */

import type { TradeId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { MARKET_ID, SUBMISSION_EXAMPLE, TRADER } from '../orders/order-examples.ts'

export const TX_HASH = `0x${'7e'.repeat(32)}`
const SETTLEMENT = '0x5FbDB2315678afecb367f032d93F642f64180aa3'
const STABLECOIN = '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0'
const MARKET = '0xCafac3dD18aC6c6e92c921884f9E4176737C052c'

const signature = {
  deadline: '1900000000',
  v: 27,
  r: `0x${'5d'.repeat(32)}`,
  s: `0x${'3e'.repeat(32)}`,
}
const signer = { chainId: 31_337, owner: TRADER }

export const APPROVAL_EXAMPLE = {
  value: { ...signer, operator: SETTLEMENT, approved: true, ...signature },
}

export const PERMIT_EXAMPLE = {
  value: { ...signer, spender: SETTLEMENT, value: String(2n ** 256n - 1n), ...signature },
}

const redemption = {
  collateralToken: STABLECOIN,
  parentCollectionId: `0x${'0'.repeat(64)}`,
  conditionId: MARKET_ID,
  indexSets: ['1', '2'],
  marketAddress: MARKET,
  ...signature,
}

export const REDEMPTION_EXAMPLE = { value: { ...signer, ...redemption } }

export const BATCH_EXAMPLE = {
  value: {
    ...signer,
    redemptions: [redemption, { ...redemption, conditionId: `0x${'a1'.repeat(32)}` }],
  },
}

export const PROPOSAL_WITHOUT_BOND_EXAMPLE = {
  value: {
    chainId: 31_337,
    marketAddress: MARKET,
    proposer: TRADER,
    outcome: true,
    ...signature,
  },
}

export const PROPOSAL_EXAMPLE = {
  value: {
    ...PROPOSAL_WITHOUT_BOND_EXAMPLE.value,
    bondPermitDeadline: '1900000000',
    bondV: 28,
    bondR: signature.r,
    bondS: signature.s,
  },
}

export const SETTLEMENT_EXAMPLE = {
  value: {
    chainId: 31_337,
    marketAddress: MARKET,
    settler: TRADER,
    winningOutcome: 0,
    ...signature,
  },
}

export const CANCELLATION_EXAMPLE = {
  value: { ...signer, orders: [SUBMISSION_EXAMPLE.value.order], ...signature },
}

export const EPOCH_EXAMPLE = {
  value: { ...signer, nonce: '1887436800000000000', ...signature },
}

export const DELEGATION_EXAMPLE = {
  value: {
    ...signer,
    delegate: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
    until: '1900000000',
    maxOrderSize: '100000000',
    maxOpenNotional: '500000000',
    markets: [],
    ...signature,
  },
}

/** Rejections of operations. */
export const RELAY_REJECTIONS: readonly Rejection[] = [
  reject('INVALID_FIELD', 'chainId', 'No relayer configured for chain'),
  reject(
    'INVALID_SIGNATURE',
    'r',
    `invalid signature: the recovered signer is 0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC, not ${TRADER}; the ` +
      `server computed the digest ${TX_HASH} with nonce 3`,
  ),
  reject('WOULD_REVERT', 'marketAddress', 'the market is not resolved yet'),
  {
    ...reject(
      'TRADES_PENDING',
      'approved',
      '1 unsettled trade of the owner still needs this approval: retry when it has settled',
    ),
    tradeIds: [`${MARKET_ID}-7-0` as TradeId],
  },
  reject(
    'ORDERS_OPEN',
    'approved',
    'approved must stay true while open sell orders of the owner need the approval: cancel these orders first',
  ),
  reject(
    'NOTIONAL_TOO_SMALL',
    'conditionId',
    'the redemption of conditionId would pay 120 millionths of the stablecoin, but the minimum is 10000',
  ),
  reject(
    'ORDER_NOT_FOUND',
    'orders[3]',
    'orders[3] must be an order that this exchange has accepted before',
  ),
  reject('INSUFFICIENT_FUNDS', 'owner', 'the owner has neither stablecoin nor outcome tokens'),
]

export const CLAIMS_EXAMPLE = {
  txHash: TX_HASH,
  userAddress: TRADER,
  marketAddress: MARKET,
  marketId: MARKET_ID,
  payout: 12_500_000,
  winningOutcome: 0,
  submittedAt: 1_800_000_000,
}
