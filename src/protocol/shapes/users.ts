/** Shapes about a user: positions, activity, funds. */

import Type from 'typebox'
import { type Answer, nextBefore, nextCursor, outcome, side, word } from './fields.ts'
import { tags } from './orders.ts'
import { Trade } from './trades.ts'

const shares = (of: string) => Type.Integer({ description: `${of} shares, 6 decimals` })
const cost = (of: string) => Type.Integer({ description: `Cost of the ${of} shares, 6 decimals` })

const invested = () => Type.Integer({ description: 'yesCost + noCost, 6 decimals' })

const amounts = {
  yesShares: shares('YES'),
  noShares: shares('NO'),
  totalInvested: Type.Optional(invested()),
  yesCost: Type.Optional(cost('YES')),
  noCost: Type.Optional(cost('NO')),
}

export const Position = Type.Object(amounts, { title: 'Position' })

export const SyncedPosition = Type.Object(
  {
    ...amounts,
    synced: Type.Literal(true),
    syncedAt: Type.Integer({ description: 'Unix seconds' }),
    blockNumber: Type.Integer({ description: 'Block at which the shares were read' }),
    blockHash: Type.String({ description: 'Hash of that block' }),
  },
  { title: 'SyncedPosition' },
)

const inMarket = {
  marketId: Type.String(),
  marketQuestion: Type.String(),
  contractAddress: Type.String(),
}

export const UserPosition = Type.Object(
  {
    ...inMarket,
    yesShares: shares('YES'),
    noShares: shares('NO'),
    totalInvested: invested(),
    yesCost: cost('YES'),
    noCost: cost('NO'),
    realisedProfit: Type.Integer({
      description:
        'Profit from shares that were sold, merged, redeemed or given away, 6 decimals; negative for a loss',
    }),
    expiration: Type.Integer({ description: 'Unix seconds' }),
    resolved: Type.Boolean(),
  },
  { title: 'UserPosition' },
)
export type UserPosition = Answer<typeof UserPosition>

export const UserPositions = Type.Object({
  positions: Type.Array(UserPosition),
  count: Type.Integer({ description: 'Number of markets in this answer' }),
  realisedProfit: Type.Integer({
    description: 'Sum over all markets of the chain, also those not in this answer, 6 decimals',
  }),
  nextCursor,
})

const Holder = Type.Object(
  {
    address: Type.String(),
    yesShares: shares('YES'),
    noShares: shares('NO'),
    totalShares: Type.Integer({ description: 'yesShares + noShares' }),
    totalInvested: Type.Integer({ description: 'Cost of the shares, 6 decimals' }),
  },
  { title: 'Holder' },
)

export const Holders = Type.Object({
  topHolders: Type.Array(Holder),
  totalHolders: Type.Integer(),
})
export type Holders = Answer<typeof Holders>

export const MarketHolders = Type.Object({ marketId: Type.String(), ...Holders.properties })
export type MarketHolders = Answer<typeof MarketHolders>

const {
  tradeId,
  outcome: tradeOutcome,
  price,
  size,
  kind,
  status,
  timestamp,
  txHash,
} = Trade.properties

const UserTrade = Type.Object(
  {
    tradeId,
    ...inMarket,
    role: Type.Enum(['buyer', 'seller'], {
      description:
        '`buyer` for a trade with oneself. In a mint or merge the role, the outcome and the price are those of the user: ' +
        'both sides of a mint are buyers',
    }),
    outcome: tradeOutcome,
    price,
    size,
    cost: Type.Integer({
      description:
        'Amount that the buyer paid, stablecoin, 6 decimals; in a mint or merge the amount that the user paid or received',
    }),
    kind,
    status,
    timestamp,
    txHash,
    orderHash: Type.String({ description: 'The user’s order' }),
    takerSide: side('The taker: 0 = buyer, 1 = seller'),
    ...tags,
  },
  { title: 'UserTrade' },
)

const UserPayout = Type.Object(
  {
    ...inMarket,
    winningOutcome: outcome(),
    payout: Type.Integer({ description: 'Stablecoin, 6 decimals' }),
    txHash: Type.String(),
    status: word(['pending', 'confirmed', 'failed'], 'pending, confirmed or failed'),
    timestamp: Type.Integer({ description: 'Unix seconds' }),
  },
  { title: 'UserPayout' },
)

export const UserActivity = Type.Object({
  activity: Type.Array(UserTrade),
  settlements: Type.Array(UserPayout),
})
export type UserActivity = Answer<typeof UserActivity>

export const ActivityPage = Type.Object({ ...UserActivity.properties, nextBefore })
export type ActivityPage = Answer<typeof ActivityPage>

const amount = (description: string) => Type.String({ description })

/** Funds of a trader on a chain. Amounts are decimal text, because an allowance may be any uint256. */
export const Funds = Type.Object(
  {
    chainId: Type.Integer(),
    trader: Type.String(),
    blockNumber: Type.Integer({
      description: 'Number of the block at which the funds were read from the chain',
    }),
    tokens: Type.Array(
      Type.Object({
        token: Type.Enum(['stablecoin', 'outcome']),
        marketId: Type.Optional(Type.String({ description: 'For an outcome token: its market' })),
        outcome: Type.Optional(outcome()),
        held: amount('Balance of the trader on the chain'),
        allowed: amount('Amount that the settlement contract may take'),
        reservedForOrders: amount('Needed by open orders and orders in progress'),
        reservedForTrades: amount('Needed by trades that are not settled yet'),
        free: amount('Available for a further order'),
      }),
      { description: 'The stablecoin, and every outcome token that an order or a trade needs' },
    ),
  },
  { title: 'Funds' },
)
export type Funds = Answer<typeof Funds>

export const DelegateList = Type.Object({
  delegates: Type.Array(
    Type.Object({
      delegate: Type.String({ description: 'The key that may sign for the account' }),
      active: Type.Boolean({ description: 'False if it was revoked or its time has ended' }),
      until: Type.Integer({
        description:
          'Unix seconds: the exchange accepts orders of the delegate that expire by then',
      }),
      settlesUntil: Type.Integer({
        description: 'Unix seconds: trades that matched before the end still settle until then',
      }),
      maxOrderSize: Type.Integer({
        description: 'Largest order in shares, 6 decimals; 0: no limit',
      }),
      maxOpenNotional: Type.Integer({
        description:
          'Largest sum of price × open size of all open orders of the delegate, 6 decimals; 0: no limit',
      }),
      markets: Type.Array(Type.String(), {
        description: 'Markets in which the delegate may trade; empty for all',
      }),
    }),
  ),
  count: Type.Integer(),
})
export type DelegateList = Answer<typeof DelegateList>
