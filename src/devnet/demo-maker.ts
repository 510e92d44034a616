/**
 * `npm run demo:maker`: a client like any other that quotes both outcomes of every open market, so
 * that a newcomer sees a living book. It trades as one of the demo traders; in price markets, where
 * no trader has shares yet, it splits some stablecoin first.
 */

import type { Market } from '#client/answers.ts'
import { registerApiKey } from '#client/api-keys.ts'
import { type Client, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { withApiKey } from '#client/tokens.ts'
import { devnetKey } from './accounts.ts'
import { CommandError, readInteger, readKey, runCommand, sleep, URL_OPTION } from './command.ts'
import { drift, fairOfPrice, ladder } from './quotes.ts'

const UNIT = 1_000_000
const CENT = 10_000
const DEMO_TRADER = 10
/** Orders of a maker that was stopped end by themselves, some rounds later. */
const TTL_ROUNDS = 3
const TTL_SEC_MIN = 120
/** A market that ends sooner is left alone. */
const ENDS_SEC_MIN = 90
const MARKETS_MAX = 50

type Quoted = { readonly id: string; readonly fair: number; readonly quick: boolean }

type QuickAnswer = {
  readonly active: boolean
  readonly quickMarket: {
    readonly marketId: string
    readonly startPrice: number
    readonly endTime: number
  } | null
}

await runCommand({
  call: 'npm run demo:maker --',
  about: 'Quotes YES and NO in all open markets until it is stopped, and cancels its orders then.',
  options: {
    levels: { value: '<n>', help: 'prices on each side', default: '3' },
    size: { value: '<shares>', help: 'shares at each price', default: '100' },
    spread: { value: '<cents>', help: 'between bid and ask', default: '4' },
    seconds: { value: '<n>', help: 'between two rounds', default: '5' },
    rounds: { value: '<n>', help: 'how many; 0 is until it is stopped', default: '0' },
    assets: { value: '<names>', help: 'whose price markets', default: 'BTC,ETH' },
    account: { value: '<n>', help: 'which well-known account', default: String(DEMO_TRADER) },
    'key-file': { value: '<path>', help: 'a file with the key of another', default: '' },
    url: URL_OPTION,
  },
  async run(values) {
    const levels = readInteger('levels', values.levels, 1, 20)
    const size = readInteger('size', values.size, 1, 1_000_000) * UNIT
    const spread = readInteger('spread', values.spread, 1, 50) * CENT
    const pauseSec = readInteger('seconds', values.seconds, 1, 3_600)
    const rounds = readInteger('rounds', values.rounds, 0, 1_000_000)
    const account = readInteger('account', values.account, 0, 19)
    const signer = values['key-file'] === '' ? devnetKey(account) : readKey(values['key-file'], 0)
    const assets = values.assets.split(',').filter((name) => /^[A-Za-z0-9]{1,32}$/.test(name))
    const client = await connect(values.url, signer)
    const stop = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => stop.abort())
    }
    const ttlSeconds = Math.max(TTL_SEC_MIN, TTL_ROUNDS * pauseSec)
    const maker = makeMaker(client, values.url, { levels, size, spread, ttlSeconds, assets })
    let told = ''
    for (let round = 1; !stop.signal.aborted; round++) {
      const said = await maker.quote().catch(troubleOf)
      if (said !== told) process.stdout.write(`${said}\n`)
      told = said
      if (round === rounds) return
      await sleep(pauseSec * 1_000, stop.signal)
    }
    const cancelled = await maker.cancelAll()
    process.stdout.write(`stopped; ${cancelled} orders cancelled\n`)
  },
})

/** With a key where the exchange asks for one. */
async function connect(url: string, signer: `0x${string}`): Promise<Client> {
  const open = createClient({ url, signer, retries: 1 })
  const { auth, chains } = await open.config()
  if (chains.length === 0) throw new CommandError('this exchange has no chain to sign for')
  if (!auth.bearer) return open
  const key = await registerApiKey({ url }, signer, { name: 'demo maker' })
  return createClient(withApiKey({ url, signer, retries: 1 }, key))
}

/** An exchange that is away for a while is waited for. */
function troubleOf(error: unknown): string {
  if (error instanceof SibylError) return `waiting: ${error.message}`
  throw error
}

function makeMaker(
  client: Client,
  url: string,
  terms: {
    readonly levels: number
    readonly size: number
    readonly spread: number
    readonly ttlSeconds: number
    readonly assets: readonly string[]
  },
) {
  /** What each market seemed worth in the round before. */
  const fairs = new Map<string, number>()
  const funded = new Set<string>()

  async function read<Answer>(path: string): Promise<Answer | undefined> {
    const response = await fetch(`${url}${path}`).catch(() => undefined)
    return response?.ok === true ? ((await response.json()) as Answer) : undefined
  }

  /** The active price market of an asset, if the exchange has such markets. */
  async function quickMarket(asset: string, nowSec: number): Promise<Quoted[]> {
    const path = `/api/v1/quick-markets/${asset}`
    const { quickMarket: market } = (await read<QuickAnswer>(path)) ?? { quickMarket: null }
    if (!market || market.endTime - nowSec < ENDS_SEC_MIN) return []
    const now = await read<{ price: number }>(`${path}/price`)
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
        const shared = { ...terms, marketId: market.id }
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
