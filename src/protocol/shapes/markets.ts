/** Markets in REST and the stream: their texts, prices, volumes and endings. */

import Type from 'typebox'
import { CATEGORIES, MATCHINGS } from '#domain/market.ts'
import { type Answer, ofBoth, orNull, outcome } from './fields.ts'

export const MARKET_STATUSES = ['open', 'expired', 'resolved', 'withdrawn'] as const

const UNKNOWN = 'null while the database is unavailable'

/** A one-line summary of a market. Pairs are of YES and NO; prices and volumes have 6 decimals. */
export const Ticker = Type.Object({
  status: Type.Enum([...MARKET_STATUSES]),
  quick: Type.Boolean({ description: 'True for a quick market' }),
  matching: Type.Enum([...MATCHINGS], {
    description:
      '`same-outcome`: a buy matches sells of its outcome only. `complementary`: it also matches buys of the other ' +
      'outcome if both prices add up to a dollar or more; a sell also matches sells of the other outcome if both ' +
      'prices add up to a dollar or less. It never changes',
  }),
  bestBidPrices: ofBoth(Type.Integer(), 'the best bid, or 0 if there is none'),
  bestAskPrices: ofBoth(Type.Integer(), 'the best ask, or 0 if there is none'),
  lastPrice: orNull(
    Type.Integer({
      description: `Price of the newest trade of either outcome; 0 if there is none, ${UNKNOWN}`,
    }),
  ),
  lastOutcome: orNull(outcome({ description: 'Outcome to which `lastPrice` belongs' })),
  lastPrices: orNull(ofBoth(Type.Integer(), 'the last price, or 0 if there is none')),
  priceChanges24h: orNull(
    ofBoth(
      orNull(Type.Integer()),
      'the last price minus that of 24 hours ago, or minus the first price if trading began ' +
        'since; null without trades',
    ),
  ),
  volume24h: orNull(
    Type.Integer({ description: `Volume of the last 24 hours, to the minute; ${UNKNOWN}` }),
  ),
  trades24h: orNull(Type.Integer()),
  totalVolume: orNull(Type.Integer({ description: `All-time volume; ${UNKNOWN}` })),
  seq: Type.Integer({
    description: 'The market’s sequence number; 0 after it has ended and was unloaded',
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
    expiration: Type.Integer({ description: 'Unix seconds' }),
    chainId: Type.Integer(),
    resolved: Type.Boolean(),
    bestAskPrice: Type.Integer({ description: 'Best YES ask, 6 decimals; 0 if there is none' }),
    createdAt: Type.Integer({ description: 'Unix seconds' }),
    winningOutcome: Type.Optional(
      outcome({
        minimum: 0,
        maximum: 1,
        description:
          'In lists, for a market that is resolved on the chain: 0 = YES, 1 = NO. For one market see `GET ' +
          '/api/v1/resolution/{marketId}`',
      }),
    ),
    event: orNull(EventName, {
      description: 'Event of the market, see `GET /api/v1/events/{slug}`; null if it has none',
    }),
    ...Ticker.properties,
  },
  { title: 'Market' },
)
export type Market = Answer<typeof Market>

const BookLevel = Type.Object(
  {
    price: Type.Integer({ description: '6 decimals' }),
    size: Type.Integer({ description: 'Total size at this price, 6 decimals; may exceed 2^53' }),
    implied: Type.Optional(
      Type.Integer({
        description:
          'With `implied=true`: the part of `size` that orders of the other outcome imply',
      }),
    ),
  },
  { title: 'Level' },
)

/** A book in JSON; `Orderbook` of the SDK has its sizes as bigint. */
export const BookAnswer = Type.Object({
  marketId: Type.String(),
  bids: Type.Array(BookLevel, { description: 'Best first' }),
  asks: Type.Array(BookLevel, { description: 'Best first' }),
  lastUpdate: Type.Integer({ description: 'Unix seconds' }),
  seq: Type.Integer({
    description: 'Sequence number of the last event of the market that this book includes',
  }),
  checksum: Type.Optional(
    Type.Integer({
      description:
        'With `seq` or `at` and an outcome: the checksum that the stream had at that moment',
    }),
  ),
})
export type BookAnswer = Answer<typeof BookAnswer>

export const Candle = Type.Object(
  {
    timestamp: Type.Integer({ description: 'Start, Unix seconds' }),
    open: Type.Integer(),
    high: Type.Integer(),
    low: Type.Integer(),
    close: Type.Integer(),
    volume: Type.Integer({ description: 'Stablecoin, 6 decimals' }),
    trades: Type.Integer(),
  },
  { title: 'Candle' },
)
export type Candle = Answer<typeof Candle>

export const Candles = Type.Object({
  candles: Type.Array(Candle),
  nextTo: orNull(Type.Integer(), {
    description: 'Pass it as `to` for earlier candles; null if the answer is complete',
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
  Type.Integer({ description: `${description}, stablecoin, 6 decimals` })

export const MarketStats = Type.Object(
  {
    marketId: Type.String(),
    contractAddress: Type.String(),
    volume24h: collateral('Volume of the last 24 hours, to the minute'),
    totalVolume: collateral('All-time volume'),
    lastPrice: Type.Integer({
      description: 'Price of the newest trade of either outcome, 6 decimals; 0 if there is none',
    }),
    lastOutcome: orNull(outcome({}), {
      description: 'Outcome of lastPrice: 0 = YES, 1 = NO, null if there is none',
    }),
    lastYesPrice: Type.Integer(),
    lastNoPrice: Type.Integer(),
    trades24h: Type.Integer(),
    totalTrades: Type.Integer(),
    openInterest: collateral(
      'Amount that is locked in the contract for the outcome tokens of the market',
    ),
  },
  { title: 'MarketStatistics' },
)
export type MarketStats = Answer<typeof MarketStats>

export const PlatformStats = Type.Object(
  {
    chainId: orNull(Type.Integer(), { description: 'null for all chains' }),
    totalMarkets: Type.Integer(),
    activeMarkets: Type.Integer({ description: 'Number of markets that accept orders' }),
    resolvedMarkets: Type.Integer(),
    totalVolume: Type.Integer({ description: 'Stablecoin, 6 decimals' }),
    volume24h: Type.Integer({ description: 'Volume of the last 24 hours, to the minute' }),
    totalTrades: Type.Integer({ description: 'Number of matched trades, except failed ones' }),
    trades24h: Type.Integer(),
    totalTraders: Type.Integer({
      description: 'Number of wallet addresses with at least one matched order',
    }),
    openOrders: Type.Integer(),
    openInterest: Type.Integer({
      description: 'Stablecoin that is locked in the contract for all outcome tokens, 6 decimals',
    }),
  },
  { title: 'PlatformStatistics' },
)
export type PlatformStats = Answer<typeof PlatformStats>

const Assertion = Type.Object(
  {
    id: Type.String(),
    proposer: Type.String(),
    proposedOutcome: Type.Boolean({ description: 'true = YES, false = NO' }),
    bondAmount: Type.String({ description: 'Bond in the stablecoin, 6 decimals' }),
    assertionTime: Type.Integer({ description: 'Unix seconds' }),
    expirationTime: Type.Integer({ description: 'The end of the dispute window, Unix seconds' }),
    settled: Type.Boolean(),
    settlementResolution: Type.Boolean({
      description: 'True if the oracle confirmed the proposal; only once it is settled',
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
    outcome({ description: '0 = YES won, 1 = NO won; only if resolved' }),
  ),
  assertion: Type.Optional(Assertion),
})
export type ResolutionStatus = Answer<typeof ResolutionStatus>
