/** Test environment of the checks: plain requests to the server, and a trader if one is given. */

import type { Config } from '#client/answers.ts'
import { registerApiKey, revokeApiKeyByWallet, type StoredApiKey } from '#client/api-keys.ts'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { parseExactJson } from '#client/exact-json.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { mintToken } from '#client/tokens.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { demand, Skipped } from './mismatch.ts'

type Hex = `0x${string}`

export type Answer = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Body parsed as JSON; undefined if the text is not JSON. */
  readonly body: unknown
}

type Asked = {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Request body: an object is sent as JSON, text is sent unchanged. */
  readonly body?: object | string
  readonly headers?: Readonly<Record<string, string>>
}

export type World = {
  readonly url: string
  /** Requests a path under `/api/v1`. A path that begins with `//` is requested under the root instead. */
  readonly ask: (path: string, asked?: Asked) => Promise<Answer>
  readonly config: () => Promise<Config>
  /** Returns the server's time, which may differ from this machine's: the clock of a devnet can be moved. */
  readonly nowMs: () => Promise<number>
  /** Returns a market that stays open for at least two more hours; skips the check if no market does. */
  readonly openMarket: () => Promise<Market>
  readonly trader: Trader | undefined
  /** Signs an order at a very low price with a throwaway key. */
  readonly signWithThrowawayKey: (changes?: Partial<RestingOrder>) => Promise<OrderSubmission>
}

type Trader = {
  readonly address: string
  readonly signer: Hex
  readonly sign: (changes?: Partial<RestingOrder>) => Promise<OrderSubmission>
  /** Returns the authorization header of a write; empty if the server requires none. */
  readonly authorization: () => Promise<Record<string, string>>
  /** Returns the API key of this run; the first call registers it. */
  readonly apiKey: () => Promise<StoredApiKey>
  /** Revokes the API key of this run, if it was registered. */
  readonly revoke: () => Promise<void>
}

type RestingOrder = {
  readonly marketId: string
  readonly price: number
  readonly size: number
  readonly ttlSeconds: number
}

const TIMEOUT_MS = 15_000
/** A price so low that no trader sells at it, so that the order rests. */
const PRICE = 10
const SIZE = 1_000_000
const UNIT = 1_000_000
const TTL_SECONDS = 3_600
/** A publicly known private key. It signs only orders that are never placed. */
const THROWAWAY_KEY: Hex = `0x${'5'.repeat(64)}`

export function makeWorld(options: {
  readonly url: string
  readonly key: Hex | undefined
  readonly address: string | undefined
  readonly chainId: number | undefined
}): World {
  const { url, key } = options
  let known: Promise<Config> | undefined
  let registered: Promise<StoredApiKey> | undefined
  let aheadMs = 0

  async function ask(path: string, asked: Asked = {}): Promise<Answer> {
    const { method = 'GET', body, headers } = asked
    const target = path.startsWith('//') ? `${url}${path.slice(1)}` : `${url}/api/v1${path}`
    const response = await fetch(target, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: jsonOf(text) }
  }

  async function config(): Promise<Config> {
    known ??= ask('/config').then(({ status, body }) => {
      demand(status === 200 && body !== undefined, 'GET /config to answer 200 with JSON', status)
      const found = body as Config
      aheadMs = found.serverTime * 1_000 - Date.now()
      return found
    })
    return known
  }

  async function nowMs(): Promise<number> {
    await config()
    return Date.now() + aheadMs
  }

  async function openMarket(): Promise<Market> {
    const { body } = await ask('/markets')
    const { serverTime } = await config()
    const { markets = [] } = (body ?? {}) as { markets?: readonly Market[] }
    const open = markets.find(
      ({ resolved, expiration }) => !resolved && expiration > serverTime + 2 * TTL_SECONDS,
    )
    if (open === undefined) throw new Skipped('no market stays open for another two hours')
    return open
  }

  function signing(signer: Hex) {
    const client: Client = createClient({ url, signer, ...chainOf(options) } as ClientOptions)
    return async (changes: Partial<RestingOrder> = {}): Promise<OrderSubmission> => {
      const { limits } = await config()
      // Size at which the order reaches the minimum order value, if the exchange has one.
      const least = Math.ceil(((limits.notionalMin ?? 0) * UNIT) / PRICE)
      return client.orders.sign({
        ...{ side: 'buy', outcome: 'YES', price: BigInt(PRICE), ttlSeconds: TTL_SECONDS },
        ...{ size: Math.max(SIZE, least), marketId: changes.marketId ?? (await openMarket()).id },
        ...changes,
      })
    }
  }

  function traderOf(signer: Hex, address: string): Trader {
    const apiKey = (): Promise<StoredApiKey> => {
      registered ??= registerApiKey({ url }, signer, { name: 'conformance' })
      return registered
    }
    return {
      ...{ address, signer, sign: signing(signer), apiKey },
      async authorization() {
        const { auth } = await config()
        if (!auth.bearer) return {}
        return { authorization: `Bearer ${await mintToken(await apiKey(), await nowMs())}` }
      },
      async revoke() {
        const key = await registered
        registered = undefined
        if (key !== undefined) await revokeApiKeyByWallet({ url }, key.id, signer)
      },
    }
  }

  return {
    ...{ url, ask, config, nowMs, openMarket, signWithThrowawayKey: signing(THROWAWAY_KEY) },
    trader: key === undefined ? undefined : traderOf(key, options.address ?? ''),
  }
}

export function traderOf({ trader }: World): Trader {
  if (trader !== undefined) return trader
  throw new Skipped('this check needs a trader: give --key-file, or --account on a local chain')
}

/** Places an order of the trader, runs the check, and then cancels the order even if the check fails. */
export async function withPlaced(
  world: World,
  check: (placed: {
    submission: OrderSubmission
    orderHash: string
    answer: Answer
  }) => Promise<void>,
): Promise<void> {
  const trader = traderOf(world)
  const submission = await trader.sign()
  const answer = await place(world, submission)
  const { orderHash } = (answer.body ?? {}) as { orderHash?: string }
  demand(answer.status === 200 && orderHash !== undefined, 'the order to be accepted', answer.text)
  try {
    await check({ submission, orderHash, answer })
  } finally {
    await cancel(world, orderHash, submission.order.marketId)
  }
}

export async function place(world: World, body: object): Promise<Answer> {
  const headers = await traderOf(world).authorization()
  return world.ask('/orders', { method: 'POST', body, headers })
}

export async function cancel(world: World, orderHash: string, marketId: string): Promise<Answer> {
  const headers = await traderOf(world).authorization()
  const path = `/orders/${orderHash}?marketId=${marketId}&side=buy`
  return world.ask(path, { method: 'DELETE', headers })
}

function chainOf({ chainId }: { readonly chainId: number | undefined }): { chainId?: number } {
  return chainId === undefined ? {} : { chainId }
}

function jsonOf(text: string): unknown {
  try {
    return parseExactJson(text)
  } catch {
    return undefined
  }
}
