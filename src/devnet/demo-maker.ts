/**
 * A client like any other that quotes both outcomes of every open market, so that a newcomer sees a
 * living book. In price markets, where nobody has shares yet, it splits some stablecoin first.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Market } from '#client/answers.ts'
import type { Client } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { drift, fairOfPrice, ladder } from './quotes.ts'

const UNIT = 1_000_000
const CENT = 10_000
/** Orders of a maker that was stopped end by themselves, some rounds later. */
const TTL_ROUNDS = 3
const TTL_SEC_MIN = 120
/** A market that ends sooner is left alone. */
const ENDS_SEC_MIN = 90
const MARKETS_MAX = 50

type Quoted = { readonly id: string; readonly fair: number; readonly quick: boolean }

type MakerTerms = {
  /** Prices on each side, and millionths of shares at each. */
  readonly levels: number
  readonly size: number
  /** In millionths. */
  readonly spread: number
  readonly pauseSec: number
  /** 0 is until it is stopped. */
  readonly rounds: number
  /** Whose price markets. */
  readonly assets: readonly string[]
}

/** Quotes round by round until the signal aborts, and cancels everything then. */
export async function runMaker(
  client: Client,
  terms: MakerTerms,
  ports: { readonly say: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const { say, signal } = ports
  const maker = makeMaker(client, terms)
  let told = ''
  for (let round = 1; !signal.aborted; round++) {
    const said = await maker.quote().catch(troubleOf)
    if (said !== told) say(said)
    told = said
    if (round === terms.rounds) return
    await sleep(terms.pauseSec * 1_000, undefined, { signal }).catch(() => undefined)
  }
  say(`stopped; ${await maker.cancelAll()} orders cancelled`)
}

/** An exchange that is away for a while is waited for. */
function troubleOf(error: unknown): string {
  if (error instanceof SibylError) return `waiting: ${error.message}`
  throw error
}

function makeMaker(client: Client, terms: MakerTerms) {
  const ttlSeconds = Math.max(TTL_SEC_MIN, TTL_ROUNDS * terms.pauseSec)
  const { levels, size, spread } = terms
  /** What each market seemed worth in the round before. */
  const fairs = new Map<string, number>()
  const funded = new Set<string>()

  /** The active price market of an asset, if the exchange has such markets. */
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

  /** Shares for what it sells: at each of its prices, in both outcomes. */
  async function fund({ id, quick }: Quoted): Promise<void> {
    if (!quick || funded.has(id)) return
    const needed = BigInt(terms.size * terms.levels * 4)
    const { yes, no } = await client.chain.balances({ marketId: id })
    if (yes < needed || no < needed) await client.chain.split(id, needed)
    funded.add(id)
  }

  async function cancelAll(): Promise<number> {
    const old = await client.orders.list()
    for (const { orderHash, marketId, side } of old) {
      const order = { orderHash, marketId, side: side === 0 ? 'buy' : 'sell' } as const
      await client.orders.cancel(order).catch(ended)
    }
    return old.length
  }

  return {
    /** One round: the old quotes go, since new ones could meet them, and new ones come. */
    async quote(): Promise<string> {
      const quoted = await markets()
      const live = new Set(quoted.map(({ id }) => id))
      for (const id of [...fairs.keys()]) if (!live.has(id)) fairs.delete(id)
      for (const id of funded) if (!live.has(id)) funded.delete(id)
      await cancelAll()
      let placed = 0
      for (const market of quoted) {
        await fund(market).catch(troubleOf)
        const fair = market.quick ? market.fair : drift(market.fair, Math.random())
        fairs.set(market.id, fair)
        const shared = { levels, size, spread, ttlSeconds, marketId: market.id }
        const results = await client.orders.placeBatch([
          ...ladder({ ...shared, outcome: 'YES', fair }),
          ...ladder({ ...shared, outcome: 'NO', fair: UNIT - fair }),
        ])
        placed += results.filter(({ ok }) => ok).length
      }
      return `${placed} orders in ${quoted.length} markets`
    },
    cancelAll,
  }
}

/** Different markets begin at different prices, and always at the same. */
function firstFair(id: string): number {
  return 300_000 + (Number.parseInt(id.slice(-4), 16) % 40) * CENT
}

/** An order that was filled or has expired meanwhile needs no cancel. */
function ended(error: unknown): void {
  const codes = ['ORDER_CLOSED', 'ORDER_NOT_FOUND', 'MARKET_CLOSED']
  if (!(error instanceof SibylError) || !codes.includes(error.code)) throw error
}

/** No such asset here, or no price of it yet. */
function unknownAsset(error: unknown): undefined {
  if (!(error instanceof SibylError)) throw error
  return undefined
}
