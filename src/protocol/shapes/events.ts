/**
 * Shapes of events in REST and the SDK. An event is a group of markets; its shape includes the markets and their
 * prices.
 */

import Type from 'typebox'
import { CATEGORIES } from '#domain/market.ts'
import { type Answer, orNull } from './fields.ts'
import { Market } from './markets.ts'

const EventPrices = Type.Object(
  {
    yesSum: Type.Integer({
      description:
        'Sum of the YES prices of all markets, in millionths of a dollar. Withdrawn markets do ' +
        'not count. The price of a resolved market is its payout. The price of any other market ' +
        'is the middle between its best bid and its best ask, or its last price if it has no bid ' +
        'or no ask',
    }),
    unpriced: Type.Integer({
      description: 'Number of markets of the event that have no price yet',
    }),
    bidSum: orNull(
      Type.Integer({
        description:
          'Sum of the best YES bids of all markets, in millionths of a dollar. Withdrawn markets ' +
          'do not count. Null if a market that counts is not open or has no bid',
      }),
    ),
    askSum: orNull(
      Type.Integer({
        description:
          'Sum of the best YES asks of all markets, in millionths of a dollar. Withdrawn markets ' +
          'do not count. Null if a market that counts is not open or has no ask',
      }),
    ),
    gap: Type.Integer({
      description:
        'Profit of a trader who trades one share of YES in every market of the event ' +
        '(arbitrage), in millionths of a dollar. If `gap` is positive, selling the shares earns ' +
        'this amount. If `gap` is negative, buying the shares earns its absolute value, provided ' +
        'that one market resolves to YES. 0 if neither earns a profit',
    }),
  },
  { title: 'EventPrices' },
)

export const Event = Type.Object(
  {
    slug: Type.String({ description: 'Name of the event in URLs; unique on its chain' }),
    title: Type.String(),
    category: Type.Enum([...CATEGORIES]),
    tags: Type.Array(Type.String()),
    image: Type.String({
      description:
        'An emoji, or the SHA-256 of an image (0x and 64 hex digits); empty if the event has none',
    }),
    description: Type.String(),
    end: Type.Integer({ description: 'End of the event, in Unix seconds' }),
    exclusive: Type.Boolean({
      description: 'True if at most one market of the event can resolve to YES',
    }),
    chainId: Type.Integer(),
    hash: Type.String({
      description:
        'keccak256 hash of the event’s signed metadata; the factory contract stores it for each market',
    }),
    signer: Type.String({
      description: 'Address of the factory operator who signed the event’s metadata',
    }),
    createdAt: Type.Integer({ description: 'Creation time of the event, in Unix seconds' }),
    status: Type.Enum(['open', 'ended'], {
      description: '`open` until the time `end`, then `ended`',
    }),
    totalVolume: orNull(
      Type.Integer({
        description:
          'Total volume of all markets of the event, in millionths of the stablecoin. In lists it can be ' +
          'some seconds old. Null while the database is unavailable',
      }),
    ),
    marketCount: Type.Integer({ description: 'Number of markets of the event' }),
    markets: Type.Array(Market, {
      description: 'Markets of the event, oldest first; in a list of events, only the first ones',
    }),
    prices: orNull(EventPrices, {
      description:
        'Prices of an exclusive event. Null if the event is not exclusive, or if `markets` ' +
        'contains only some of its markets',
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
        description:
          'Volume of the last 24 hours, in millionths of the stablecoin; null while the database is ' +
          'unavailable',
      }),
    ),
  },
  { title: 'EventDetail' },
)
export type EventDetail = Answer<typeof EventDetail>
