/**
 * The tools of `sibyl mcp`. Reading tools are always there. Trading tools need a key, and check the limits of this
 * session before they send anything; without `live` they only ask the exchange whether it would accept the order.
 */

import type { Client, PlaceIntent } from '#client/client.ts'
import { costCeil } from '#domain/money.ts'

type Json = Readonly<Record<string, unknown>>

export type Tool = {
  readonly name: string
  readonly description: string
  readonly inputSchema: Json
  readonly annotations: { readonly readOnlyHint: boolean; readonly destructiveHint: boolean }
  run(args: Json): Promise<unknown>
}

/** Limits of one session, in millionths. */
export type TradingLimits = {
  /** Largest size of an order. */
  readonly sizeMax: number
  /** Largest sum of price times size of all orders placed in the session. */
  readonly notionalMax: number
  readonly isLive: boolean
}

/** A request that this server refuses itself. */
export class Refusal extends Error {}

const text = (description: string, more: Json = {}) => ({ type: 'string', description, ...more })
const MARKET_ID = text('The id of the market: 0x and 64 hex digits', {
  pattern: '^0x[0-9a-fA-F]{64}$',
})
const OUTCOME = text('YES or NO', { enum: ['YES', 'NO'] })
const SIDE = text('buy or sell', { enum: ['buy', 'sell'] })
const LISTED_MAX = 100

function schema(properties: Json, required: readonly string[] = []): Json {
  return { type: 'object', properties, required, additionalProperties: false }
}

function reading(name: string, description: string, inputSchema: Json, run: Tool['run']): Tool {
  const annotations = { readOnlyHint: true, destructiveHint: false }
  return { name, description, inputSchema, annotations, run }
}

export function readTools(client: Client, own: string | undefined): Tool[] {
  const address = text(own === undefined ? 'The trader' : 'The trader; the own address if left out')
  const traderOf = ({ trader }: Json): string => {
    const named = (trader as string | undefined) ?? own
    if (named === undefined) throw new Refusal('trader is required: the server has no key')
    return named
  }
  return [
    reading(
      'list_markets',
      `Markets that accept orders, at most ${LISTED_MAX}`,
      schema({ search: text('Words of the question'), quick: { type: 'boolean' } }),
      async ({ search, quick }) => {
        const found = await client.markets({
          status: 'open',
          ...(search === undefined ? {} : { search: String(search) }),
          ...(quick === true ? { quick: true } : {}),
        })
        return { count: found.length, markets: found.slice(0, LISTED_MAX) }
      },
    ),
    reading(
      'get_market',
      'A market: question, expiration, best price, state',
      schema({ marketId: MARKET_ID }, ['marketId']),
      ({ marketId }) => client.market(String(marketId)),
    ),
    reading(
      'get_orderbook',
      'Bids and asks of an outcome. Prices are millionths of a dollar, sizes millionths of a share',
      schema({ marketId: MARKET_ID, outcome: OUTCOME }, ['marketId', 'outcome']),
      ({ marketId, outcome }) => client.orderbook(String(marketId), outcome as 'YES' | 'NO'),
    ),
    reading(
      'get_trades',
      'The newest trades of a market, at most 100',
      schema({ marketId: MARKET_ID }, ['marketId']),
      ({ marketId }) => client.trades(String(marketId)),
    ),
    reading('get_open_orders', 'Open orders of a trader', schema({ trader: address }), (args) =>
      client.orders.list({ trader: traderOf(args) }),
    ),
    reading('get_positions', 'Shares that a trader holds', schema({ trader: address }), (args) =>
      client.positions({ address: traderOf(args) }),
    ),
  ]
}

export function tradeTools(
  client: Client,
  { sizeMax, notionalMax, isLive }: TradingLimits,
): Tool[] {
  /** Sum of the orders that were sent, in millionths of a dollar. */
  let spent = 0
  const annotations = { readOnlyHint: false, destructiveHint: true }
  const dryRun = { dryRun: true, why: 'the server runs without --live' }

  async function placeOrder(args: Json): Promise<unknown> {
    const ttlSeconds = (args.ttlSeconds as number | undefined) ?? 3_600
    const submission = await client.orders.sign({ ...args, ttlSeconds } as unknown as PlaceIntent)
    const { price, size } = submission.order
    if (size > sizeMax) {
      throw new Refusal(`size must be at most ${sizeMax} millionths of a share (--max-size)`)
    }
    const cost = costCeil(price, size)
    if (spent + cost > notionalMax) {
      const left = `${notionalMax - spent} of ${notionalMax}`
      throw new Refusal(
        `price times size is ${cost}; this session may spend ${left} (--max-notional)`,
      )
    }
    if (!isLive) return { ...dryRun, ...(await client.orders.validate(submission)) }
    // Counted before it is sent: if the answer is lost, the order may have been placed.
    spent += cost
    return client.orders.submit(submission)
  }

  return [
    {
      name: 'place_order',
      description:
        'Places a limit order. price is in dollars for one share, such as "0.42"; size is in shares, such as "10"',
      inputSchema: schema(
        {
          ...{ marketId: MARKET_ID, side: SIDE, outcome: OUTCOME },
          price: text('Dollars for one share, above 0 and below 1'),
          size: text('Shares'),
          ttlSeconds: { type: 'integer', minimum: 61, description: 'Until it expires; 3600' },
          timeInForce: text('GTC, IOC or FOK', { enum: ['GTC', 'IOC', 'FOK'] }),
          postOnly: { type: 'boolean', description: 'Refused if it would match at once' },
          label: text('Repeated wherever the order is told of; public', { maxLength: 32 }),
          replaces: text('The hash of an open order that leaves in the same step'),
        },
        ['marketId', 'side', 'outcome', 'price', 'size'],
      ),
      annotations,
      run: placeOrder,
    },
    {
      name: 'cancel_order',
      description: 'Cancels an open order',
      inputSchema: schema(
        { orderHash: text('The hash of the order'), marketId: MARKET_ID, side: SIDE },
        ['orderHash', 'marketId', 'side'],
      ),
      annotations,
      async run({ orderHash, marketId, side }) {
        const order = { orderHash: String(orderHash), marketId: String(marketId) }
        if (!isLive) return { ...dryRun, ...order }
        return client.orders.cancel({ ...order, side: side as 'buy' | 'sell' })
      },
    },
  ]
}

/** Returns why the arguments do not fit the tool's schema; undefined if they do. */
export function argumentFlaw({ inputSchema }: Tool, args: Json): string | undefined {
  const { properties, required } = inputSchema as {
    properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>
    required: readonly string[]
  }
  for (const name of required) if (args[name] === undefined) return `${name} is required`
  for (const [name, value] of Object.entries(args)) {
    const property = properties[name]
    if (property === undefined) return `there is no argument ${name}`
    const { type, pattern, maxLength, minimum } = property
    const enumerated = property.enum as readonly unknown[] | undefined
    const fits = type === 'integer' ? Number.isSafeInteger(value) : typeof value === type
    if (!fits) return `${name} must be of the type ${type}`
    if (enumerated?.includes(value) === false) return `${name} must be ${enumerated.join(' or ')}`
    if (typeof pattern === 'string' && !new RegExp(pattern).test(String(value))) {
      return `${name} must match ${pattern}`
    }
    if (String(value).length > ((maxLength as number | undefined) ?? ARGUMENT_CHARS_MAX)) {
      return `${name} is too long`
    }
    if (Number(value) < Number(minimum ?? Number.NEGATIVE_INFINITY)) {
      return `${name} must be at least ${minimum}`
    }
  }
  return undefined
}

const ARGUMENT_CHARS_MAX = 256
