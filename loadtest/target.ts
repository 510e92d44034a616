/**
 * Accesses the tested exchange over its API: the chain, the markets, the API keys, and the state at the end of the run.
 */

import { registerApiKey } from '#client/api-keys.ts'
import { parseExactJson } from '#client/exact-json.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { type TokenKey, tokenKeyOf } from './bearer-tokens.ts'
import type { FundedChain } from './fund-traders.ts'
import { TargetError } from './options.ts'
import { parseMetrics, type ServerMetrics } from './server-metrics.ts'
import type { Trader } from './signed-orders.ts'
import type { Told, ToldOrder } from './truth.ts'

type Config = {
  readonly auth?: { readonly bearer?: boolean }
  readonly chains?: readonly {
    readonly chainId: number
    readonly rpcUrl?: string
    readonly contracts: FundedChain['contracts']
  }[]
}
type MarketRow = {
  readonly id: MarketId
  readonly chainId: number
  readonly resolved: boolean
  readonly expiration: number
}
type Level = { readonly price: number; readonly size: number | string }
type BookBody = { readonly bids: readonly Level[]; readonly asks: readonly Level[] }

export type Target = {
  readonly url: string
  readonly domain: OrderDomain
  readonly markets: readonly MarketId[]
  /** The local chain of the exchange, if it has one. */
  readonly chain: FundedChain | undefined
  /** True if writes need a token. */
  readonly bearer: boolean
}

const AT_ONCE = 16
const READ_MS_MAX = 20_000

export async function readJson<T>(url: string): Promise<T> {
  const response = await fetch(url, { signal: AbortSignal.timeout(READ_MS_MAX) })
  const text = await response.text()
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text.slice(0, 200)}`)
  return parseExactJson(text) as T
}

/** Returns the message of the innermost cause of an error. */
export function reasonOf(error: unknown): string {
  let deepest = error
  while (deepest instanceof Error && deepest.cause instanceof Error) deepest = deepest.cause
  if (deepest instanceof AggregateError) deepest = deepest.errors[0]
  return deepest instanceof Error ? deepest.message || deepest.name : String(deepest)
}

export async function openTarget(
  url: string,
  marketsMax: number,
  secondsNeeded: number,
): Promise<Target> {
  let config: Config
  try {
    config = await readJson<Config>(`${url}/api/v1/config`)
  } catch (error) {
    throw new TargetError(`${url} cannot be reached: ${reasonOf(error)}`)
  }
  const [chain] = config.chains ?? []
  if (chain === undefined) throw new TargetError(`${url} names no chain, so nothing can be signed`)
  const { markets: all } = await readJson<{ markets: MarketRow[] }>(
    `${url}/api/v1/markets?chain_id=${chain.chainId}`,
  )
  const untilSec = Date.now() / 1_000 + secondsNeeded
  const open = all.filter(({ resolved, expiration }) => !resolved && expiration > untilSec)
  if (open.length === 0) throw new TargetError(`${url} has no market that stays open long enough`)
  return {
    url,
    domain: {
      chainId: chain.chainId,
      verifyingContract: toAddress(chain.contracts.settlement),
    },
    markets: open.slice(0, marketsMax).map(({ id }) => id),
    chain:
      chain.rpcUrl === undefined ? undefined : { rpcUrl: chain.rpcUrl, contracts: chain.contracts },
    bearer: config.auth?.bearer === true,
  }
}

export async function readMetrics(url: string): Promise<ServerMetrics | undefined> {
  try {
    const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(READ_MS_MAX) })
    const text = await response.text()
    return response.ok ? parseMetrics(text, performance.now()) : undefined
  } catch {
    return undefined
  }
}

/**
 * Registers an API key for each trader, because a trader may cancel only their own orders, and a cancel is
 * authenticated by the trader's key.
 */
export function registerKeys(url: string, traders: readonly Trader[]): Promise<TokenKey[]> {
  return eachOf(traders, async ({ key }) => {
    const wallet = `0x${Buffer.from(key).toString('hex')}` as const
    const registered = await registerApiKey({ url }, wallet)
    return tokenKeyOf(registered.id, registered.privateKey)
  })
}

export function readBooks({ url, markets }: Target): Promise<Told['books'][number][]> {
  return eachOf(markets, (marketId) =>
    Promise.all(
      [0, 1].map(async (outcome) => {
        const { bids, asks } = await readJson<BookBody>(
          `${url}/api/v1/orderbook/${marketId}?outcome=${outcome}`,
        )
        return { bids: bids.map(levelText), asks: asks.map(levelText) }
      }),
    ),
  )
}

const levelText = ({ price, size }: Level): string => `${price}:${size}`

export async function readTold(target: Target, traders: readonly Address[]): Promise<Told> {
  const { url, domain, markets } = target
  const numbers = new Map(markets.map((marketId, number) => [marketId as string, number]))
  type Row = Omit<ToldOrder, 'market' | 'remaining'> & { marketId: string; remainingSize: number }
  const lists = await eachOf(traders, (trader) =>
    readJson<{ orders: Row[] }>(`${url}/api/v1/users/${trader}/orders?chain_id=${domain.chainId}`),
  )
  const openOrders = lists.flatMap(({ orders }) =>
    orders.map(({ orderHash, marketId, side, outcome, price, remainingSize }) => ({
      orderHash,
      market: numbers.get(marketId) ?? -1,
      side,
      outcome,
      price,
      remaining: remainingSize,
    })),
  )
  const trades = await eachOf(markets, async (marketId) => {
    const body = await readJson<{ trades: { tradeId: string }[] }>(
      `${url}/api/v1/trades/${marketId}`,
    )
    return body.trades.map(({ tradeId }) => tradeId)
  })
  return { openOrders, books: await readBooks(target), trades }
}

/** Runs `work` for each item, a few at the same time; returns the results in the order of the items. */
async function eachOf<In, Out>(
  items: readonly In[],
  work: (item: In) => Promise<Out>,
): Promise<Out[]> {
  const results: Out[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const at = next++
      results[at] = await work(items[at]!)
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker))
  return results
}
