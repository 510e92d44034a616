/** Prices and quick markets in the form that clients receive, in the stream and elsewhere. */

import Type, { type Static, type TSchema } from 'typebox'
import { QUICK_VERDICTS, type ShownQuickMarket } from '#domain/quick-market.ts'

const orNull = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]))

/** New price of an asset. */
export const PriceEvent = Type.Object({
  asset: Type.String({ description: 'The asset: `BTC`' }),
  price: Type.Integer({ description: 'USD, 8 decimals' }),
  priceUSD: Type.Number({ description: 'In US dollars' }),
  timestamp: Type.Integer({ description: 'Unix milliseconds' }),
  source: Type.String({ description: 'Who told it: pyth, binance or coinbase' }),
})
export type PriceEvent = Static<typeof PriceEvent>

export const QuickMarket = Type.Object({
  id: Type.Integer(),
  marketId: Type.String({ description: 'Where its orders go' }),
  asset: Type.String(),
  intervalMinutes: Type.Integer(),
  intervalSeconds: Type.Optional(Type.Integer()),
  startPrice: Type.Integer({ description: 'The strike' }),
  startTime: Type.Integer({ description: 'Unix seconds' }),
  endTime: Type.Integer({ description: 'Unix seconds' }),
  resolved: Type.Boolean(),
  priceSource: Type.String(),
  createdAt: Type.Integer({ description: 'Unix seconds' }),
  endPrice: orNull(Type.Integer({ description: 'Null until it is resolved' })),
  outcome: orNull(
    Type.Integer({ description: '0 = YES (it went up), 1 = NO; null until it is resolved' }),
  ),
  verdict: Type.Optional(
    Type.Enum([...QUICK_VERDICTS], {
      description:
        'Where the outcome comes from: `open`, there is none yet; `prices`; `contested`, the price sources ' +
        'contradict each other, and the market waits for a proposal at the optimistic oracle; `oracle`, it ' +
        'was contested and the oracle decided',
    }),
  ),
})
/** Type for clients; it compiles only while the schema promises the same. */
export type QuickMarket =
  Static<typeof QuickMarket> extends ShownQuickMarket ? ShownQuickMarket : never

export const QUICK_MARKET_EVENTS = ['opened', 'resolved'] as const
export type QuickMarketEvent = {
  readonly event: (typeof QUICK_MARKET_EVENTS)[number]
  readonly quickMarket: QuickMarket
  readonly atMs: number
}
