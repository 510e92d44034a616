/** Prices of assets and quick markets, in REST and the stream. */

import Type from 'typebox'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import { QUICK_VERDICTS } from '#domain/quick-market.ts'
import { type Answer, orNull, word } from './fields.ts'

const ANY_SOURCE = `${PRICE_SOURCES.slice(0, -1).join(', ')} or ${PRICE_SOURCES.at(-1)}`

/** A new price of an asset. */
export const StreamPrice = Type.Object({
  asset: Type.String({ description: 'The asset: `BTC`' }),
  price: Type.Integer({ description: 'USD, 8 decimals' }),
  priceUSD: Type.Number({ description: 'In US dollars' }),
  timestamp: Type.Integer({ description: 'Unix milliseconds' }),
  source: Type.String({ description: `The provider: ${ANY_SOURCE}` }),
})
export type StreamPrice = Answer<typeof StreamPrice>

/** The latest price of an asset. */
export const Price = Type.Object({
  asset: Type.String(),
  price: Type.Integer({ description: 'USD, 8 decimals' }),
  priceUSD: Type.Number(),
  timestamp: Type.Integer({ description: 'Unix seconds, by the provider’s clock' }),
  source: Type.String({ description: 'The provider’s address, without its query' }),
  sourceName: word(PRICE_SOURCES, ANY_SOURCE),
  stale: Type.Boolean(),
})
export type Price = Answer<typeof Price>

export const PastPrice = Type.Object({
  price: Type.Integer({ description: 'USD, 8 decimals' }),
  priceUSD: Type.Number(),
  timestamp: Type.Integer({ description: 'Unix seconds' }),
  source: word(PRICE_SOURCES),
})
export type PastPrice = Answer<typeof PastPrice>

export const QuickMarket = Type.Object({
  id: Type.Integer(),
  marketId: Type.String({ description: 'The market id, for its orders' }),
  asset: Type.String(),
  intervalMinutes: Type.Integer(),
  intervalSeconds: Type.Optional(Type.Integer()),
  startPrice: Type.Integer({ description: 'The strike: the price at the start, USD, 8 decimals' }),
  startTime: Type.Integer({ description: 'Unix seconds' }),
  endTime: Type.Integer({ description: 'Unix seconds' }),
  resolved: Type.Boolean(),
  priceSource: Type.String(),
  createdAt: Type.Integer({ description: 'Unix seconds' }),
  endPrice: Type.Optional(orNull(Type.Integer({ description: 'Null until it is resolved' }))),
  outcome: Type.Optional(
    orNull(
      Type.Integer({ description: '0 = YES (it went up), 1 = NO; null until it is resolved' }),
    ),
  ),
  verdict: Type.Optional(
    Type.Enum([...QUICK_VERDICTS], {
      description:
        'Origin of the outcome. `open`: there is none yet; `prices`: the prices at its start and end decided; `contested`: the price sources ' +
        'contradict each other, and the market waits for a proposal at the optimistic oracle; `oracle`: it ' +
        'was contested and the oracle decided',
    }),
  ),
})
export type QuickMarket = Answer<typeof QuickMarket>

export const QUICK_MARKET_EVENTS = ['opened', 'resolved'] as const

export const PriceObservation = Type.Object(
  {
    source: Type.String({ description: 'Source of the report' }),
    boundary: Type.Integer({
      description: 'The start or the end of the market to which this report belongs, Unix seconds',
    }),
    price: Type.Integer({ description: 'USD, 8 decimals' }),
    timestamp: Type.Integer({ description: 'Unix milliseconds, by the provider’s clock' }),
    receivedAt: Type.Integer({ description: 'Unix milliseconds, by the exchange’s clock' }),
    via: Type.Enum(['stream', 'latest', 'history'], {
      description: 'How the report was received: pushed, requested, or from the provider’s history',
    }),
    exact: Type.Boolean({
      description:
        'True if the provider certainly reported nothing between the boundary and this report',
    }),
    report: Type.String({ description: 'The report as the provider sent it' }),
  },
  { title: 'PriceObservation' },
)
export type PriceObservation = Answer<typeof PriceObservation>

export const DIRECTIONS = ['down', 'equal', 'up'] as const

const PriceProvider = Type.Object(
  {
    source: Type.String({ description: 'The source' }),
    start: orNull(PriceObservation),
    end: orNull(PriceObservation),
    direction: orNull(Type.Enum([...DIRECTIONS]), {
      description:
        'Direction of this source’s price from start to end; null unless it reported both',
    }),
    moveBps: orNull(Type.Number(), {
      description: 'Size of the price move in basis points of its start price',
    }),
    counted: Type.Boolean({
      description:
        'True if this source has a vote: it reported prices for the start and the end, and they are near those of another source, if another one reported',
    }),
  },
  { title: 'PriceProvider' },
)

/** The shape of this version; `QuickMarketEvidence` of the SDK can also read other versions. */
export const EvidenceAnswer = Type.Object({
  quickMarket: QuickMarket,
  chainId: Type.Integer(),
  contractAddress: Type.String(),
  strike: PriceObservation,
  decidedBy: orNull(Type.String()),
  start: orNull(PriceObservation),
  end: orNull(PriceObservation),
  compared: Type.Array(Type.Object({ start: orNull(PriceObservation), end: PriceObservation }), {
    description: 'Other sources with which the deciding source was compared',
  }),
  providers: Type.Array(PriceProvider, {
    description:
      'Reports of every source, including the deciding one; empty for markets decided by earlier versions',
  }),
  average: orNull(
    Type.Object({
      price: Type.Integer({ description: 'The mean, rounded down; USD, 8 decimals' }),
      observations: Type.Array(PriceObservation),
    }),
  ),
  rule: Type.String(),
  comparison: orNull(Type.String()),
  onChain: Type.Enum(['pending', 'created', 'reported']),
  createTxHash: Type.String(),
  reportTxHash: Type.String(),
})
export type EvidenceAnswer = Answer<typeof EvidenceAnswer>
