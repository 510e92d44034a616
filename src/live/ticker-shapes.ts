/** A market in one row, for lists and the stream: best prices, last prices, the last 24 hours. */

import Type, { type Static } from 'typebox'
import type { CloseReason } from '#domain/market.ts'
import { BUY, OUTCOMES, SELL, type Side } from '#domain/order.ts'
import { exactInteger } from '#http/json.ts'
import type { ShownMarket } from './market-board.ts'
import type { MarketFigures } from './market-figures.ts'

const STATUSES = ['open', 'expired', 'resolved', 'withdrawn'] as const

const UNKNOWN = 'null while the database is away'
const orNull = (schema: ReturnType<typeof Type.Integer>) => Type.Union([schema, Type.Null()])
const ofBoth = (schema: Parameters<typeof Type.Array>[0], description: string) =>
  Type.Array(schema, { minItems: 2, maxItems: 2, description: `Of YES and of NO: ${description}` })

export const tickerFields = {
  status: Type.Enum([...STATUSES]),
  quick: Type.Boolean({ description: 'Whether it is a quick market' }),
  bestBidPrices: ofBoth(Type.Integer(), 'the best bid; 0 for none'),
  bestAskPrices: ofBoth(Type.Integer(), 'the best ask; 0 for none'),
  lastPrice: orNull(
    Type.Integer({
      description: `Price of the newest trade of either outcome; 0 for none, ${UNKNOWN}`,
    }),
  ),
  lastOutcome: orNull(Type.Integer({ description: 'The outcome that lastPrice is of' })),
  lastPrices: Type.Union([ofBoth(Type.Integer(), 'the last price; 0 for none'), Type.Null()]),
  priceChanges24h: Type.Union([
    ofBoth(
      orNull(Type.Integer()),
      'the last price less that of 24 hours ago, or less the first price where it was first ' +
        'traded since; null where it never was',
    ),
    Type.Null(),
  ]),
  volume24h: orNull(
    Type.Integer({ description: `Of the last 24 hours, to the minute; ${UNKNOWN}` }),
  ),
  trades24h: orNull(Type.Integer()),
  totalVolume: orNull(Type.Integer({ description: `All-time volume; ${UNKNOWN}` })),
  seq: Type.Integer({ description: 'The market’s sequence; 0 once it is over and gone' }),
}

const TickerShape = Type.Object(tickerFields)
type TickerBody = Static<typeof TickerShape>

export const TICKER_EXAMPLE = {
  status: 'open',
  quick: false,
  bestBidPrices: [410_000, 560_000],
  bestAskPrices: [430_000, 590_000],
  lastPrice: 430_000,
  lastOutcome: 0,
  lastPrices: [430_000, 560_000],
  priceChanges24h: [-20_000, 15_000],
  volume24h: 1_075_000,
  trades24h: 1,
  totalVolume: 52_340_000,
  seq: 17,
} as const

/** `shown` is undefined after the market ended and its thread unloaded it. */
export function tickerBody(
  market: { readonly quick: boolean; readonly closed: CloseReason | undefined },
  shown: ShownMarket | undefined,
  figures: MarketFigures | undefined,
): TickerBody {
  const best = (side: Side) => OUTCOMES.map((outcome) => shown?.books[outcome].best(side) ?? 0)
  return {
    status: market.closed ?? 'open',
    quick: market.quick,
    bestBidPrices: best(BUY),
    bestAskPrices: best(SELL),
    ...(figures === undefined ? NOT_KNOWN : figuresBody(figures)),
    seq: shown?.seq ?? 0,
  }
}

const NOT_KNOWN = {
  ...{ lastPrice: null, lastOutcome: null, lastPrices: null, priceChanges24h: null },
  ...{ volume24h: null, trades24h: null, totalVolume: null },
}

function figuresBody(figures: MarketFigures) {
  const { lastOutcome, lastPrices, priceChanges24h, trades24h } = figures
  return {
    lastPrice: lastOutcome === null ? 0 : lastPrices[lastOutcome],
    lastOutcome,
    lastPrices: [...lastPrices],
    priceChanges24h: [...priceChanges24h],
    volume24h: exactInteger(figures.volume24h),
    trades24h,
    totalVolume: exactInteger(figures.totalVolume),
  }
}
