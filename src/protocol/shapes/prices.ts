/** Shapes of asset prices and quick markets, in REST and the stream. */

import Type from 'typebox'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import { QUICK_VERDICTS } from '#domain/quick-market.ts'
import { type Answer, orNull, word } from './fields.ts'

const ANY_SOURCE = `${PRICE_SOURCES.slice(0, -1).join(', ')} or ${PRICE_SOURCES.at(-1)}`

/** A new price of an asset. */
export const StreamPrice = Type.Object({
  asset: Type.String({ description: 'Symbol of the asset, such as `BTC`' }),
  price: Type.Integer({
    description: 'Price in units of 10^-8 US dollars: 6543210000000 is 65,432.10 dollars',
  }),
  priceUSD: Type.Number({ description: 'Price as a decimal number of US dollars' }),
  timestamp: Type.Integer({
    description: 'Time of the price by the provider’s clock, in Unix milliseconds',
  }),
  source: Type.String({ description: `Price provider: ${ANY_SOURCE}` }),
})
export type StreamPrice = Answer<typeof StreamPrice>

/** The latest price of an asset. */
export const Price = Type.Object({
  asset: Type.String(),
  price: Type.Integer({
    description: 'Price in units of 10^-8 US dollars: 6543210000000 is 65,432.10 dollars',
  }),
  priceUSD: Type.Number(),
  timestamp: Type.Integer({
    description: 'Time of the price by the provider’s clock, in Unix seconds',
  }),
  source: Type.String({ description: 'URL of the price provider’s API, without its query part' }),
  sourceName: word(PRICE_SOURCES, `Price provider: ${ANY_SOURCE}`),
  stale: Type.Boolean(),
})
export type Price = Answer<typeof Price>

export const PastPrice = Type.Object({
  price: Type.Integer({
    description: 'Price in units of 10^-8 US dollars: 6543210000000 is 65,432.10 dollars',
  }),
  priceUSD: Type.Number(),
  timestamp: Type.Integer({ description: 'Time of the price, in Unix seconds' }),
  source: word(PRICE_SOURCES),
})
export type PastPrice = Answer<typeof PastPrice>

export const QuickMarket = Type.Object({
  id: Type.Integer(),
  marketId: Type.String({ description: 'Market id, for placing orders' }),
  asset: Type.String(),
  intervalMinutes: Type.Integer(),
  intervalSeconds: Type.Optional(Type.Integer()),
  startPrice: Type.Integer({
    description: 'Strike: the price at the start, in units of 10^-8 US dollars',
  }),
  startTime: Type.Integer({ description: 'Start of the quick market, in Unix seconds' }),
  endTime: Type.Integer({ description: 'End of the quick market, in Unix seconds' }),
  resolved: Type.Boolean(),
  priceSource: Type.String(),
  createdAt: Type.Integer({ description: 'Creation time of the quick market, in Unix seconds' }),
  endPrice: Type.Optional(
    orNull(
      Type.Integer({
        description:
          'Price at the end, in units of 10^-8 US dollars; null until the quick market is ' +
          'resolved',
      }),
    ),
  ),
  outcome: Type.Optional(
    orNull(
      Type.Integer({
        description:
          'Outcome: 0 = YES (the price did not fall), 1 = NO (it fell); null until the quick market is ' +
          'resolved',
      }),
    ),
  ),
  verdict: Type.Optional(
    Type.Enum([...QUICK_VERDICTS], {
      description:
        'How the outcome is decided. `open`: there is no outcome yet. `prices`: the prices at the start and ' +
        'the end decided. `contested`: the price sources contradict each other, and the market waits for the ' +
        'optimistic oracle. `oracle`: the optimistic oracle decided a contested market',
    }),
  ),
})
export type QuickMarket = Answer<typeof QuickMarket>

export const QUICK_MARKET_EVENTS = ['opened', 'resolved'] as const

export const PriceObservation = Type.Object(
  {
    source: Type.String({ description: 'Price provider that sent the report' }),
    boundary: Type.Integer({
      description:
        'Time for which this report gives the price, in Unix seconds: the start or the end of ' +
        'the quick market, or for `average` a time shortly before the end. The report is the ' +
        'first one of the provider that the exchange has from this time or later',
    }),
    price: Type.Integer({
      description: 'Price in units of 10^-8 US dollars: 6543210000000 is 65,432.10 dollars',
    }),
    timestamp: Type.Integer({
      description: 'Time of the report by the provider’s clock, in Unix milliseconds',
    }),
    receivedAt: Type.Integer({
      description: 'Time at which the exchange received the report, in Unix milliseconds',
    }),
    via: Type.Enum(['stream', 'latest', 'history'], {
      description:
        'How the exchange received the report. `stream`: the provider pushed it. `latest`: the ' +
        'exchange requested the latest price. `history`: the exchange requested a past price ' +
        'from the provider’s history',
    }),
    exact: Type.Boolean({
      description:
        'True if this is certainly the provider’s first report at or after `boundary`; false if ' +
        'the exchange may have missed an earlier one',
    }),
    report: Type.String({ description: 'Text of the report as the provider sent it' }),
  },
  { title: 'PriceObservation' },
)
export type PriceObservation = Answer<typeof PriceObservation>

export const DIRECTIONS = ['down', 'equal', 'up'] as const

const PriceProvider = Type.Object(
  {
    source: Type.String({ description: 'Name of the price source' }),
    start: orNull(PriceObservation),
    end: orNull(PriceObservation),
    direction: orNull(Type.Enum([...DIRECTIONS]), {
      description:
        'Direction in which this source’s price moved from start to end; null if the source did ' +
        'not report both prices',
    }),
    moveBps: orNull(Type.Number(), {
      description:
        'Change of this source’s price from start to end, in basis points of the start price; ' +
        'null if the source did not report both prices',
    }),
    counted: Type.Boolean({
      description:
        'True if this source has a vote on the outcome. The deciding source always has a vote. ' +
        'Another source has a vote if it reported both prices, and neither price is ' +
        'contradicted. A price is contradicted if other sources reported a price for the same ' +
        'time, but none of them a similar one',
    }),
  },
  { title: 'PriceProvider' },
)

/**
 * The evidence as this version of the exchange sends it. The type `QuickMarketEvidence` of the SDK can also read the
 * evidence of other versions.
 */
export const EvidenceAnswer = Type.Object({
  quickMarket: QuickMarket,
  chainId: Type.Integer(),
  contractAddress: Type.String(),
  strike: PriceObservation,
  decidedBy: orNull(Type.String()),
  start: orNull(PriceObservation),
  end: orNull(PriceObservation),
  compared: Type.Array(Type.Object({ start: orNull(PriceObservation), end: PriceObservation }), {
    description:
      'Reports of the other sources that reported a price at the end, for comparison with the ' +
      'deciding source',
  }),
  providers: Type.Array(PriceProvider, {
    description:
      'Reports of every source, including the deciding one; empty if an earlier version of the exchange ' +
      'decided the market',
  }),
  average: orNull(
    Type.Object({
      price: Type.Integer({
        description:
          'Mean of the prices in `observations`, rounded down, in units of 10^-8 US dollars',
      }),
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
