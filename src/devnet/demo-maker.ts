/**
 * A client that quotes both outcomes of every open market, so that new users see an active book. In markets where the
 * maker has no shares yet, it splits stablecoin first. In each round a second account buys a few shares from the maker,
 * so that charts and trade lists move.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { OrderIntent } from '#client/build-order.ts'
import type { Client } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import type { OpenOrder } from '#protocol/shapes/orders.ts'
import { cancelOrder, drift, fairOfPrice, ladder, OUTCOMES } from './quotes.ts'

const UNIT = 1_000_000
const CENT = 10_000
/** Lifetime of an order, as a number of rounds. If the maker stops, its orders expire. */
const TTL_ROUNDS = 3
const TTL_SEC_MIN = 120
/** Minimum time until a market ends, in seconds; markets that end sooner are skipped. */
const ENDS_SEC_MIN = 90
const MARKETS_MAX = 50
/** Number of shares that the second account buys with each order. */
const TAKEN = '3'

type Quoted = { readonly id: string; readonly fair: number; readonly quick: boolean }

type MakerTerms = {
  /** Number of price levels on each side. `size` is the size at each level, in millionths of a share. */
  readonly levels: number
  readonly size: number
  /** Difference between the best bid and the best ask, in millionths of a dollar. */
  readonly spread: number
  readonly pauseSec: number
  /** Number of rounds; 0 to run until the signal aborts. */
  readonly rounds: number
  /** Assets whose quick markets are quoted. */
  readonly assets: readonly string[]
}

/**
 * Updates the quotes once per round. If the signal aborts, cancels all orders. After the last round, leaves the orders
 * open. Without a `taker`, no account buys from the maker.
 */
export async function runMaker(
  clients: { readonly maker: Client; readonly taker?: Client | undefined },
  terms: MakerTerms,
  ports: { readonly say: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const { say, signal } = ports
  const maker = makeMaker(clients.maker, terms, clients.taker)
  let lastSaid = ''
  for (let round = 1; !signal.aborted; round++) {
    const said = await maker.quote().catch(troubleOf)
    if (said !== lastSaid) say(said)
    lastSaid = said
    if (round === terms.rounds) return
    await sleep(terms.pauseSec * 1_000, undefined, { signal }).catch(() => undefined)
  }
  say(`stopped; ${await maker.cancelAll()} orders cancelled`)
}

/** Returns a status line for an error of the exchange, so that the maker continues; rethrows any other error. */
function troubleOf(error: unknown): string {
  if (error instanceof SibylError) return `waiting: ${error.message}`
  throw error
}

/** Makes the functions that cancel and replace quotes. */
function makeQuoting(client: Client) {
  async function cancel(orders: readonly OpenOrder[]): Promise<void> {
    for (const { orderHash, marketId, side } of orders) {
      const order = { orderHash, marketId, side: side === 0 ? 'buy' : 'sell' } as const
      await client.orders.cancel(order).catch(ended)
    }
  }

  /** Places post-only quotes. `refused` contains the quotes that would have matched an order. */
  async function place(quotes: readonly OrderIntent[]): Promise<{
    readonly placed: number
    readonly refused: readonly OrderIntent[]
  }> {
    const intents = quotes.map((quote) => ({ ...quote, postOnly: true }))
    const results = await client.orders.placeBatch(intents)
    const refused = quotes.filter((_, at) => {
      const result = results[at]
      return result?.ok === false && result.error.code === 'POST_ONLY_WOULD_MATCH'
    })
    return { placed: results.filter(({ ok }) => ok).length, refused }
  }

  /**
   * Places the new quotes before it cancels the old quotes, so that no side of a book is ever empty. If a new quote is
   * rejected because it would match old quotes, first cancels those old quotes, then places the rejected quote again.
   * The side of those old quotes does not become empty, because the new quotes of that side are already in the book.
   */
  async function replace(old: readonly OpenOrder[], quotes: readonly OrderIntent[]) {
    const first = await place(quotes)
    const { now, later } = cancelOrder(old, first.refused)
    await cancel(now)
    const second = first.refused.length === 0 ? { placed: 0 } : await place(first.refused)
    await cancel(later)
    return first.placed + second.placed
  }

  return { cancel, replace }
}

function makeMaker(client: Client, terms: MakerTerms, taker: Client | undefined) {
  const ttlSeconds = Math.max(TTL_SEC_MIN, TTL_ROUNDS * terms.pauseSec)
  const { levels, size, spread } = terms
  /** Fair value of each market in the previous round. */
  const fairs = new Map<string, number>()
  const funded = new Set<string>()
  const { cancel, replace } = makeQuoting(client)
  let rounds = 0

  /** Returns the active quick market of an asset; empty if the asset has none, or if the quick market ends soon. */
  async function quickMarket(asset: string, nowSec: number): Promise<Quoted[]> {
    const { quickMarket: market } =
      (await client.quickMarkets.active(asset).catch(unknownAsset)) ?? {}
    if (market === undefined || market.endTime - nowSec < ENDS_SEC_MIN) return []
    const now = await client.prices.latest(asset).catch(unknownAsset)
    const fair = fairOfPrice(market.startPrice, now?.price ?? market.startPrice)
    return [{ id: market.marketId, fair, quick: true }]
  }

  async function markets(): Promise<Quoted[]> {
    const { serverTime } = await client.config({ fresh: true })
    const open = (await client.markets())
      .filter((market: Market) => !market.resolved && market.expiration - serverTime > ENDS_SEC_MIN)
      .slice(0, MARKETS_MAX)
      .map(({ id }) => ({ id, fair: fairs.get(id) ?? firstFair(id), quick: false }))
    const quick = await Promise.all(terms.assets.map((asset) => quickMarket(asset, serverTime)))
    return [...open, ...quick.flat()]
  }

  /** Splits stablecoin into shares of both outcomes, enough for all asks of the maker in the market. */
  async function fund({ id }: Quoted): Promise<void> {
    if (funded.has(id)) return
    const needed = BigInt(terms.size * terms.levels * 4)
    const { yes, no } = await client.chain.balances({ marketId: id })
    if (yes < needed || no < needed) await client.chain.split(id, needed)
    funded.add(id)
  }

  async function cancelAll(): Promise<number> {
    const old = await client.orders.list()
    await cancel(old)
    return old.length
  }

  async function quoteMarket(market: Quoted, old: readonly OpenOrder[]): Promise<number> {
    await fund(market).catch(troubleOf)
    const fair = market.quick ? market.fair : drift(market.fair, Math.random())
    fairs.set(market.id, fair)
    const shared = { levels, size, spread, ttlSeconds, marketId: market.id }
    return replace(old, [
      ...ladder({ ...shared, outcome: 'YES', fair }),
      ...ladder({ ...shared, outcome: 'NO', fair: UNIT - fair }),
    ])
  }

  /** Buys at the best ask if only the maker sells at that price; otherwise skips the book. */
  async function take(market: Quoted): Promise<void> {
    const outcome = rounds % 2 === 0 ? 'YES' : 'NO'
    const { asks } = await client.orderbook(market.id, outcome)
    const [best] = asks
    const own = (await client.orders.list({ market: market.id })).some(
      (order) =>
        order.side === 1 && OUTCOMES[order.outcome] === outcome && order.price === best?.price,
    )
    if (best === undefined || !own || best.size !== BigInt(size)) return
    await taker?.orders.place({
      ...{ marketId: market.id, outcome, side: 'buy', price: best.price, size: TAKEN },
      ...{ timeInForce: 'IOC', ttlSeconds },
    })
  }

  return {
    /** Runs one round: replaces the quotes of each market, and trades in one market, a different one in each round. */
    async quote(): Promise<string> {
      const quoted = await markets()
      const live = new Set(quoted.map(({ id }) => id))
      for (const id of [...fairs.keys()]) if (!live.has(id)) fairs.delete(id)
      for (const id of funded) if (!live.has(id)) funded.delete(id)
      const old = await client.orders.list()
      let placed = 0
      for (const market of quoted) {
        const own = old.filter(({ marketId }) => marketId === market.id)
        placed += await quoteMarket(market, own)
      }
      await cancel(old.filter(({ marketId }) => !live.has(marketId)))
      const traded = quoted[rounds++ % Math.max(1, quoted.length)]
      if (traded !== undefined && taker !== undefined) await take(traded)
      return `${placed} orders in ${quoted.length} markets`
    },
    cancelAll,
  }
}

/** Returns a market's first fair value. It depends only on the market's id, so it is the same in every run. */
function firstFair(id: string): number {
  return 300_000 + (Number.parseInt(id.slice(-4), 16) % 40) * CENT
}

/** Ignores the error of a cancel if the order was filled or has expired, or if its market was closed. */
function ended(error: unknown): void {
  const codes = ['ORDER_CLOSED', 'ORDER_NOT_FOUND', 'MARKET_CLOSED']
  if (!(error instanceof SibylError) || !codes.includes(error.code)) throw error
}

/**
 * Returns undefined for a `SibylError`, such as one for an asset that has no price yet. Rethrows other
 * errors.
 */
function unknownAsset(error: unknown): undefined {
  if (!(error instanceof SibylError)) throw error
  return undefined
}
