/** Shapes of markets in REST and the stream: their texts, prices, volumes and endings. */

import Type from 'typebox'
import { CATEGORIES, MATCHINGS } from '#domain/market.ts'
import { type Answer, ofBoth, orNull, outcome } from './fields.ts'

export const MARKET_STATUSES = ['open', 'expired', 'resolved', 'withdrawn'] as const

const UNKNOWN = 'null while the database is unavailable'

/**
 * A one-line summary of a market. Pairs have the value of YES first, then of NO; prices and volumes have 6 decimals.
 */
export const Ticker = Type.Object({
  status: Type.Enum([...MARKET_STATUSES]),
  quick: Type.Boolean({ description: 'True if the market is a quick market' }),
  matching: Type.Enum([...MATCHINGS], {
    description:
      'Matching rule of the market, which never changes. `same-outcome`: a buy matches only sells of the ' +
      'same outcome. `complementary`: a buy also matches buys of the other outcome if both prices add up to ' +
      'at least a dollar. A sell also matches sells of the other outcome if both prices add up to at most a ' +
      'dollar',
  }),
  bestBidPrices: ofBoth(
    Type.Integer(),
    'the best bid in millionths of a dollar, or 0 if there is none',
  ),
  bestAskPrices: ofBoth(
    Type.Integer(),
    'the best ask in millionths of a dollar, or 0 if there is none',
  ),
  lastPrice: orNull(
    Type.Integer({
      description: `Price of the newest trade of either outcome, in millionths of a dollar; 0 if there is no trade, ${UNKNOWN}`,
    }),
  ),
  lastOutcome: orNull(
    outcome({
      description:
        'Outcome of the newest trade, whose price is `lastPrice`: 0 = YES, 1 = NO; null if there is no trade',
    }),
  ),
  lastPrices: orNull(
    ofBoth(Type.Integer(), 'the last price in millionths of a dollar, or 0 if there is no trade'),
  ),
  priceChanges24h: orNull(
    ofBoth(
      orNull(Type.Integer()),
      'the change of the last price within 24 hours, in millionths of a dollar. If trading began less than 24 hours ago, it is the change ' +
        'since the first price. A value is null if its outcome has no trades',
    ),
  ),
  volume24h: orNull(
    Type.Integer({
      description: `Volume of the last 24 hours, in millionths of the stablecoin; ${UNKNOWN}`,
    }),
  ),
  trades24h: orNull(Type.Integer()),
  totalVolume: orNull(
    Type.Integer({
      description: `Total volume of the market, in millionths of the stablecoin; ${UNKNOWN}`,
    }),
  ),
  seq: Type.Integer({
    description:
      'Sequence number of the market’s newest event; 0 if the market has ended and is no longer in memory',
  }),
})
export type Ticker = Answer<typeof Ticker>

/** Name of the event that a market belongs to. */
const EventName = Type.Object({ slug: Type.String(), title: Type.String() }, { title: 'EventName' })

export const Market = Type.Object(
  {
    id: Type.String(),
    question: Type.String(),
    description: Type.String(),
    category: Type.Enum([...CATEGORIES]),
    contractAddress: Type.String(),
    maker: Type.String(),
    expiration: Type.Integer({ description: 'Time at which trading ends, in Unix seconds' }),
    chainId: Type.Integer(),
    resolved: Type.Boolean(),
    bestAskPrice: Type.Integer({
      description: 'Best YES ask, in millionths of a dollar; 0 if there is none',
    }),
    createdAt: Type.Integer({ description: 'Creation time of the market, in Unix seconds' }),
    winningOutcome: Type.Optional(
      outcome({
        minimum: 0,
        maximum: 1,
        description:
          'Winning outcome: 0 = YES, 1 = NO. Present only in lists, and only if the market is resolved on ' +
          'the chain. `GET /api/v1/resolution/{marketId}` has it for one market',
      }),
    ),
    event: orNull(EventName, {
      description:
        'Event that the market belongs to (see `GET /api/v1/events/{slug}`); null if it belongs to none',
    }),
    ...Ticker.properties,
  },
  { title: 'Market' },
)
export type Market = Answer<typeof Market>

const BookLevel = Type.Object(
  {
    price: Type.Integer({ description: 'Price of the level, in millionths of a dollar' }),
    size: Type.Integer({
      description: 'Total size at this price, in millionths of a share; it can exceed 2^53',
    }),
    implied: Type.Optional(
      Type.Integer({
        description:
          'Part of `size` that comes from orders of the other outcome, in millionths of a share. ' +
          'Present only if `implied` is true in the request',
      }),
    ),
  },
  { title: 'Level' },
)

/** A book in JSON. The type `Orderbook` of the SDK has the sizes as bigint. */
export const BookAnswer = Type.Object({
  marketId: Type.String(),
  bids: Type.Array(BookLevel, { description: 'Bids, highest price first' }),
  asks: Type.Array(BookLevel, { description: 'Asks, lowest price first' }),
  lastUpdate: Type.Integer({ description: 'Time of the last change of the book, in Unix seconds' }),
  seq: Type.Integer({
    description: 'Sequence number of the last market event that this book includes',
  }),
  checksum: Type.Optional(
    Type.Integer({
      description:
        'Checksum of this past book; the stream has the same checksum for the same book. Present ' +
        'only if the request has `outcome`, and also `seq` or `at`',
    }),
  ),
})
export type BookAnswer = Answer<typeof BookAnswer>

export const Candle = Type.Object(
  {
    timestamp: Type.Integer({ description: 'Start of the candle, in Unix seconds' }),
    open: Type.Integer(),
    high: Type.Integer(),
    low: Type.Integer(),
    close: Type.Integer(),
    volume: Type.Integer({ description: 'Volume of the candle, in millionths of the stablecoin' }),
    trades: Type.Integer(),
  },
  { title: 'Candle' },
)
export type Candle = Answer<typeof Candle>

export const Candles = Type.Object({
  candles: Type.Array(Candle),
  nextTo: orNull(Type.Integer(), {
    description: 'Value of `to` that requests the candles before these; null if there are none',
  }),
})
export type Candles = Answer<typeof Candles>

export const MarketCandles = Type.Object({
  marketId: Type.String(),
  outcome: outcome({}),
  interval: Type.String(),
  candles: Candles.properties.candles,
  count: Type.Integer(),
  nextTo: Candles.properties.nextTo,
})

const collateral = (description: string) =>
  Type.Integer({ description: `${description}, in millionths of the stablecoin` })

export const MarketStats = Type.Object(
  {
    marketId: Type.String(),
    contractAddress: Type.String(),
    volume24h: collateral('Volume of the last 24 hours'),
    totalVolume: collateral('Total volume of the market'),
    lastPrice: Type.Integer({
      description:
        'Price of the newest trade of either outcome, in millionths of a dollar; 0 if there is no trade',
    }),
    lastOutcome: orNull(outcome({}), {
      description:
        'Outcome of the newest trade, whose price is `lastPrice`: 0 = YES, 1 = NO; null if there is no trade',
    }),
    lastYesPrice: Type.Integer(),
    lastNoPrice: Type.Integer(),
    trades24h: Type.Integer(),
    totalTrades: Type.Integer(),
    openInterest: collateral('Amount locked in the contract for the outcome tokens of the market'),
  },
  { title: 'MarketStatistics' },
)
export type MarketStats = Answer<typeof MarketStats>

export const PlatformStats = Type.Object(
  {
    chainId: orNull(Type.Integer(), {
      description: 'Chain of the statistics; null if they cover all chains',
    }),
    totalMarkets: Type.Integer(),
    activeMarkets: Type.Integer({ description: 'Number of markets that accept orders' }),
    resolvedMarkets: Type.Integer(),
    totalVolume: Type.Integer({
      description: 'Total volume of all markets, in millionths of the stablecoin',
    }),
    volume24h: Type.Integer({
      description: 'Volume of the last 24 hours, in millionths of the stablecoin',
    }),
    totalTrades: Type.Integer({ description: 'Number of matched trades, without failed ones' }),
    trades24h: Type.Integer(),
    totalTraders: Type.Integer({
      description: 'Number of wallet addresses with at least one matched order',
    }),
    openOrders: Type.Integer(),
    openInterest: Type.Integer({
      description:
        'Amount locked in the contract for all outcome tokens, in millionths of the stablecoin',
    }),
  },
  { title: 'PlatformStatistics' },
)
export type PlatformStats = Answer<typeof PlatformStats>

const Assertion = Type.Object(
  {
    id: Type.String(),
    proposer: Type.String(),
    proposedOutcome: Type.Boolean({ description: 'Proposed outcome: true = YES, false = NO' }),
    bondAmount: Type.String({
      description: 'Bond of the proposal, in millionths of the stablecoin',
    }),
    assertionTime: Type.Integer({ description: 'Time of the proposal, in Unix seconds' }),
    expirationTime: Type.Integer({ description: 'End of the dispute window, in Unix seconds' }),
    settled: Type.Boolean(),
    settlementResolution: Type.Boolean({
      description:
        'True if the oracle confirmed the proposed outcome; false as long as `settled` is false',
    }),
    disputed: Type.Boolean(),
  },
  { title: 'Assertion' },
)

/** Status of a market’s resolution. */
export const ResolutionStatus = Type.Object({
  marketId: Type.String(),
  expired: Type.Boolean(),
  resolved: Type.Boolean(),
  winningOutcome: Type.Optional(
    outcome({
      description: 'Winning outcome: 0 = YES, 1 = NO; absent until the market is resolved',
    }),
  ),
  assertion: Type.Optional(Assertion),
})
export type ResolutionStatus = Answer<typeof ResolutionStatus>
