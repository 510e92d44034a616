/** Shapes about a user: positions, activity, funds. */

import Type from 'typebox'
import { type Answer, nextBefore, nextCursor, outcome, side, word } from './fields.ts'
import { tags } from './orders.ts'
import { Trade } from './trades.ts'

const shares = (of: string) =>
  Type.Integer({ description: `Number of ${of} shares, in millionths of a share` })
const cost = (of: string) =>
  Type.Integer({ description: `Cost of the ${of} shares, in millionths of the stablecoin` })

const invested = () =>
  Type.Integer({
    description: 'Cost of all shares (`yesCost` + `noCost`), in millionths of the stablecoin',
  })

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
    syncedAt: Type.Integer({ description: 'Time of the sync, in Unix seconds' }),
    blockNumber: Type.Integer({ description: 'Number of the block at which the shares were read' }),
    blockHash: Type.String({ description: 'Hash of the block at which the shares were read' }),
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
        'Profit from shares that were sold, merged, redeemed or given away, in millionths of the stablecoin; ' +
        'negative for a loss',
    }),
    expiration: Type.Integer({
      description: 'Time at which trading in the market ends, in Unix seconds',
    }),
    resolved: Type.Boolean(),
  },
  { title: 'UserPosition' },
)
export type UserPosition = Answer<typeof UserPosition>

export const UserPositions = Type.Object({
  positions: Type.Array(UserPosition),
  count: Type.Integer({ description: 'Number of markets in this answer' }),
  realisedProfit: Type.Integer({
    description:
      'Profit in all markets of the chain, including those on other pages, in millionths of the stablecoin',
  }),
  nextCursor,
})

const Holder = Type.Object(
  {
    address: Type.String(),
    yesShares: shares('YES'),
    noShares: shares('NO'),
    totalShares: Type.Integer({
      description:
        'Number of shares of both outcomes (`yesShares` + `noShares`), in millionths of a share',
    }),
    totalInvested: Type.Integer({
      description: 'Cost of the holder’s shares, in millionths of the stablecoin',
    }),
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
        'Role of the user: `buyer` if the user bought, `seller` if the user sold. In a mint, ' +
        'both traders are buyers. In a merge, both traders are sellers. A user who traded with ' +
        'themselves is the buyer',
    }),
    outcome: tradeOutcome,
    price,
    size,
    cost: Type.Integer({
      description:
        'Amount that the user paid as buyer or received as seller, in millionths of the ' +
        'stablecoin',
    }),
    kind,
    status,
    timestamp,
    txHash,
    orderHash: Type.String({ description: 'Hash of the user’s order' }),
    takerSide: side('Side of the taker: 0 = buyer, 1 = seller'),
    ...tags,
  },
  { title: 'UserTrade' },
)

const UserPayout = Type.Object(
  {
    ...inMarket,
    winningOutcome: outcome(),
    payout: Type.Integer({ description: 'Amount of the payout, in millionths of the stablecoin' }),
    txHash: Type.String(),
    status: word(
      ['pending', 'confirmed', 'failed'],
      'Status of the payout: pending, confirmed or failed',
    ),
    timestamp: Type.Integer({ description: 'Time of the payout, in Unix seconds' }),
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
        marketId: Type.Optional(
          Type.String({ description: 'Market of the outcome token; absent for the stablecoin' }),
        ),
        outcome: Type.Optional(outcome()),
        held: amount(
          'Balance of the trader on the chain, in millionths of the stablecoin or of a share',
        ),
        allowed: amount(
          'Amount that the settlement contract may take from the trader, in millionths of the ' +
            'stablecoin or of a share',
        ),
        reservedForOrders: amount(
          'Amount reserved for open orders and for orders that are still being placed, in ' +
            'millionths of the stablecoin or of a share',
        ),
        reservedForTrades: amount(
          'Amount reserved for unsettled trades, in millionths of the stablecoin or of a share',
        ),
        free: amount(
          'Amount that a new order without a permit can use, in millionths of the stablecoin or ' +
            'of a share. The balance and the allowance both limit this amount',
        ),
      }),
      {
        description:
          'The stablecoin, and every outcome token that an order or unsettled trade of the trader needs',
      },
    ),
  },
  { title: 'Funds' },
)
export type Funds = Answer<typeof Funds>

export const DelegateList = Type.Object({
  delegates: Type.Array(
    Type.Object({
      delegate: Type.String({ description: 'Address of the key that can sign for the account' }),
      active: Type.Boolean({
        description: 'False if the delegate was revoked or the time `until` has passed',
      }),
      until: Type.Integer({
        description:
          'End of the delegation, in Unix seconds. The exchange rejects an order of the delegate ' +
          'if the order expires later than this time',
      }),
      settlesUntil: Type.Integer({
        description:
          'Last time at which the settlement contract settles trades of orders that the delegate ' +
          'signed, in Unix seconds',
      }),
      maxOrderSize: Type.Integer({
        description:
          'Largest size of an order of the delegate, in millionths of a share; 0 means no limit',
      }),
      maxOpenNotional: Type.Integer({
        description:
          'Maximum sum of price × open size over all open orders that the delegate signed, in ' +
          'millionths of the stablecoin; 0 means no limit',
      }),
      markets: Type.Array(Type.String(), {
        description:
          'Markets in which the delegate can trade; empty if it can trade in all markets',
      }),
    }),
  ),
  count: Type.Integer(),
})
export type DelegateList = Answer<typeof DelegateList>
