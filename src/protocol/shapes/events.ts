/** Events in REST and the SDK: groups of markets, with their markets and prices. */

import Type from 'typebox'
import { CATEGORIES } from '#domain/market.ts'
import { type Answer, orNull } from './fields.ts'
import { Market } from './markets.ts'

const EventPrices = Type.Object(
  {
    yesSum: Type.Integer({
      description:
        'Sum of the prices of YES, 6 decimals: the payout of a resolved market, else the mid of both books, else the ' +
        'last price',
    }),
    unpriced: Type.Integer({ description: 'Number of markets without any price' }),
    bidSum: orNull(
      Type.Integer({
        description: 'Sum of the best bids of YES; null unless every market is open and has one',
      }),
    ),
    askSum: orNull(
      Type.Integer({
        description: 'Sum of the best asks of YES; null unless every market is open and has one',
      }),
    ),
    gap: Type.Integer({
      description:
        'No-arbitrage gap, 6 decimals. Above 0: bidSum less 1, the profit per share of selling YES in every market. ' +
        'Below 0: askSum less 1; buying YES in every market gains the difference if one of them must resolve to YES. ' +
        '0: neither',
    }),
  },
  { title: 'EventPrices' },
)

export const Event = Type.Object(
  {
    slug: Type.String({ description: 'Name in URLs; unique on its chain' }),
    title: Type.String(),
    category: Type.Enum([...CATEGORIES]),
    tags: Type.Array(Type.String()),
    image: Type.String({
      description: 'SHA-256 of an image as 0x and 64 hex digits, an emoji, or empty',
    }),
    description: Type.String(),
    end: Type.Integer({ description: 'Unix seconds' }),
    exclusive: Type.Boolean({ description: 'True if at most one market can resolve to YES' }),
    chainId: Type.Integer(),
    hash: Type.String({
      description: 'keccak256 of the signed metadata, which the factory stores for each market',
    }),
    signer: Type.String({ description: 'Operator of the factory who signed the metadata' }),
    createdAt: Type.Integer({ description: 'Unix seconds' }),
    status: Type.Enum(['open', 'ended'], { description: '`ended` once `end` has passed' }),
    totalVolume: orNull(
      Type.Integer({
        description:
          'All-time volume of all its markets, 6 decimals; in lists it may lag by some seconds; null while the ' +
          'database is unavailable',
      }),
    ),
    marketCount: Type.Integer({ description: 'Number of markets of the event' }),
    markets: Type.Array(Market, {
      description: 'Oldest first; a list of events has only the first markets of each',
    }),
    prices: orNull(EventPrices, {
      description:
        'Prices of an exclusive event; null for any other event, and if the list does not contain all markets of the event',
    }),
  },
  { title: 'Event' },
)
export type Event = Answer<typeof Event>

/** One event with all of its markets. */
export const EventDetail = Type.Object(
  {
    ...Event.properties,
    volume24h: orNull(
      Type.Integer({
        description: 'Volume of the last 24 hours; null while the database is unavailable',
      }),
    ),
  },
  { title: 'EventDetail' },
)
export type EventDetail = Answer<typeof EventDetail>
