/**
 * Tests that the rate limiter's charge for a request is in proportion to the CPU time of the request. For each kind of
 * request, the test measures the CPU time of all threads of the exchange per charged unit. It compares this figure with
 * the median of all kinds, not with a fixed limit, because machines differ in speed.
 */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { openDriver, type Request, writeRequest } from '../../loadtest/http-driver.ts'
import { makeTrader, signOrders } from '../../loadtest/signed-orders.ts'
import { word } from '../store/chain-index/chain-events.ts'
import { fillEvents } from '../store/reads/many-events.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { WHOLE } from '../support/sample.ts'

const RATIO_MAX = 10
const MARKETS = 1_000
const LEVELS = 1_000
const EVENTS = 1_500
/** Number of requests in the warm-up, and also in the first measurement. */
const FIRST_REQUESTS = 10
/**
 * If the cost in a first measurement is more than this many times the median, the request is measured again. With
 * `TEST_WHOLE=1`, every request is measured again.
 */
const RATIO_LOOKED_AT_AGAIN = 4
const ROUNDS = 3
/** CPU time for all requests of one round. It determines the number of requests in a round, up to `REQUESTS_MAX`. */
const ROUND_NS = 15_000_000
const REQUESTS_MAX = 100

/** Routes that are not measured, because their answers do not end. */
const WITHOUT_CASE: ReadonlySet<string> = new Set([
  '/api/v1/stream',
  '/api/v1/quick-markets/{asset}/price-stream',
])

type Case = { readonly name: string; readonly requests: (count: number) => Request[] }

/** Returns the CPU time of the process's threads, in nanoseconds. */
function ranNs(pid: number): number {
  let sum = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // The thread has ended meanwhile.
    }
  }
  return sum
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

const same = (request: Request) => (count: number) => Array.from({ length: count }, () => request)
const get = (path: string, headers = {}): Case => ({
  name: `GET ${path.slice(0, 60)}`,
  requests: same(writeRequest('GET', path, '', headers)),
})
const send = (method: string, path: string, body: string, what = ''): Case => ({
  name: `${method} ${path.slice(0, 60)} ${what}`,
  requests: same(writeRequest(method, path, body)),
})

const repeat = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))
const keys = (count: number) => `{${repeat(count, (at) => `"k${at}":1`).join(',')}}`

/** Returns one case for each GET path of the OpenAPI document. `values` has the path parameters. */
function readCases(paths: readonly string[], values: Readonly<Record<string, string>>): Case[] {
  const queries: Record<string, string> = {
    '/api/v1/orders': `?trader=${values.address}`,
    '/api/v1/positions/{marketAddress}': `?user=${values.address}`,
    '/api/v1/candles/{marketId}': '?outcome=0&interval=1m',
    '/api/v1/relayer/nonces/{owner}': '?chainId=31337',
    '/api/v1/transparency/signatures': `?orders=${values.orderHash}`,
  }
  return paths
    .filter((path) => !WITHOUT_CASE.has(path))
    .map((path) => {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
        const value = values[name]
        assert.ok(value !== undefined, `${path}: there is no value for ${name}`)
        return value
      })
      const ofUser = path.startsWith('/api/v1/users/') ? '?chain_id=31337' : ''
      return get(`${filled}${queries[path] ?? ofUser}`)
    })
}

/**
 * Returns requests that the exchange refuses. The charge for a refused request must be in proportion to its cost, too.
 */
function refusedCases(marketId: MarketId): Case[] {
  const list = (item: string, count: number) =>
    `{"orders":[${repeat(count, () => item).join(',')}]}`
  const long = { 'content-type': `application/json${' '.repeat(3_000)}x` }
  const body = writeRequest('POST', '/api/v1/orders', '', { ...long, 'content-length': '2' })
  return [
    { name: 'POST a long media type', requests: same(Buffer.concat([body, Buffer.from('{}')])) },
    send('POST', '/api/v1/orders/validate', '{}', 'nothing'),
    send('POST', '/api/v1/orders/validate', keys(400), 'unknown keys'),
    send('POST', '/api/v1/orders/validate', `{"order":${keys(400)}}`, 'unknown keys inside'),
    send('POST', '/api/v1/orders', `[${repeat(900, () => '1.5').join(',')}]`, 'fractions'),
    send('POST', '/api/v1/orders/batch', list('{}', 20_000), 'empty orders'),
    send('POST', '/api/v1/orders/batch', list('{"order":{},"signature":1}', 2_000), 'misfits'),
    send('POST', '/api/v1/orders/batch', list('{"order":{}}', 100), 'a hundred misfits'),
    send('POST', '/api/v1/api-keys', keys(400), 'unknown keys'),
    send(
      'POST',
      '/api/v1/relayer/batch-ctf-redemption',
      `{"redemptions":[${repeat(1_000, () => '{}').join(',')}]}`,
      'misfits',
    ),
    send('DELETE', `/api/v1/orders/0x${'1'.repeat(64)}?marketId=${marketId}`, '', 'unknown'),
    get('/api/v1/nothing/is/here'),
    get(`/api/v1/markets?search=${'x'.repeat(200)}`),
    get(`/api/v1/orderbook/${marketId}?${repeat(200, (at) => `k${at}=1`).join('&')}`),
  ]
}

test('for each kind of request, the CPU time per rate-limit unit is at most ten times the median', async (t) => {
  const exchange = await startExchange(t, {
    environment: {
      SIBYL_LIMITS: 'true',
      SIBYL_LIMIT_IP_PER_SECOND: '1',
      SIBYL_LIMIT_IP_BURST: '100000000',
      SIBYL_DEMO_MARKETS_MORE: String(MARKETS - 3),
      SIBYL_AUTH_BEARER: 'false',
      SIBYL_TRANSPARENCY: 'on',
      // As they are by default.
      SIBYL_READ_CACHE_MS: '1000',
      SIBYL_METRICS_CACHE_MS: '1000',
    },
  })
  const { url } = exchange
  const read = async <T>(path: string) => (await fetch(url + path)).json() as Promise<T>
  type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
  const [chain] = (await read<Config>('/api/v1/config')).chains
  assert.ok(chain !== undefined)
  const { chainId } = chain
  const domain = { chainId, verifyingContract: toAddress(chain.contracts.settlement) }
  const { markets } = await read<{ markets: { id: MarketId; contractAddress: Address }[] }>(
    '/api/v1/markets',
  )
  const [market] = markets
  assert.ok(market !== undefined)
  const trader = makeTrader()
  const driver = await openDriver(url, 4)
  t.after(() => driver.close())
  const signed = (count: number, price?: number) =>
    signOrders({
      ...{ count, traders: [trader], markets: [market.id], domain },
      ...(price === undefined ? {} : { price }),
    })
  const place = (order: object) => writeRequest('POST', '/api/v1/orders', JSON.stringify(order))
  const batch = (orders: readonly object[]) =>
    writeRequest('POST', '/api/v1/orders/batch', JSON.stringify({ orders }))
  // Makes a deep book and some trades in one market.
  const bids = repeat(LEVELS, (at) => signed(2, 1_000 + 10 * at)[1]!)
  const setup = [
    ...repeat(LEVELS / 50, (at) => batch(bids.slice(50 * at, 50 * at + 50))),
    ...signed(200).map(place),
  ]
  let placed = ''
  await driver.closedLoop(setup, ({ status, body }) => {
    assert.equal(status, 200, body)
    placed = (JSON.parse(body) as { orderHash?: string }).orderHash ?? placed
  })

  // The texts of these events have the maximum length.
  const database = await openDatabase(`sqlite:${exchange.dataDir}/sibyl.db`)
  await fillEvents(database, EVENTS, 'lorem ipsum '.repeat(333))
  await closeDatabase(database)

  const document = await read<{ paths: Record<string, object> }>('/openapi.json')
  const paths = Object.entries(document.paths).flatMap(([path, methods]) =>
    'get' in methods ? [path] : [],
  )
  const hash = `0x${'1'.repeat(64)}`
  const orderHash = await eventually(async () => {
    const response = await fetch(`${url}/api/v1/orders/${placed}/proof`)
    assert.equal(response.status, 200)
    return placed
  })
  const [trade] = (await read<{ activity: { tradeId: string }[] }>(`/api/v1/activity/${market.id}`))
    .activity
  const { logs } = await read<{ logs: { path: string; size: number }[] }>('/api/v1/transparency')
  const log = logs.toSorted((one, other) => other.size - one.size)[0]
  assert.ok(trade !== undefined && log !== undefined)
  const [, , logId = '', partition = ''] = log.path.split('/')
  const [script] = /\/assets\/[^"]+\.js/.exec(await (await fetch(url)).text()) ?? []
  assert.ok(script !== undefined)
  const width = Math.min(255, log.size)
  const values = {
    ...{ marketId: market.id, marketAddress: market.contractAddress, asset: 'BTC' },
    ...{ address: trader.address, user: trader.address, owner: trader.address },
    ...{ hash, txHash: hash, id: '1', orderHash, tradeId: trade.tradeId },
    ...{ logId, partition, level: '0', index: '000', slug: 'e3' },
    day: new Date().toISOString().slice(0, 10),
  }
  const cases: Case[] = [
    ...readCases(paths, values),
    ...refusedCases(market.id),
    get(`${log.path}/tile/0/000.p/${width}`),
    get(`/api/v1/orderbook/${market.id}?outcome=YES&seq=1000`),
    get(`/api/v1/orderbook/${market.id}?at=${Math.floor(Date.now() / 1_000)}`),
    get(`${log.path}/tile/entries/000.p/${width}`),
    get(`/m/a-${market.id.slice(2, 14)}`),
    get(`/m/a-${'0'.repeat(12)}`),
    get(`/e/e3-${word(4).slice(2, 14)}`),
    get('/'),
    get(script),
    get('/docs/swagger-ui-bundle.js'),
    get('/docs/swagger-ui-bundle.js', { 'accept-encoding': 'gzip' }),
    get('/api/v1/markets?limit=1'),
    get('/api/v1/events?search=lorem ipsux'.replace(' ', '%20')),
    get('/api/v1/events?tag=nothing&limit=1'),
    get('/api/v1/events?status=ended&sort=newest&limit=1'),
    get('/api/v1/events?status=all&limit=50'),
    { name: 'POST /api/v1/orders', requests: (count) => signed(count).map(place) },
    {
      name: 'POST /api/v1/orders/batch of 20',
      requests: (count) => repeat(count, () => batch(signed(20))),
    },
    send('POST', '/api/v1/orders/validate', JSON.stringify(signed(1)[0]), 'good'),
  ]

  /** Returns the units left in the bucket of the rate limit, from the answer to a request that costs one unit. */
  const left = async () =>
    Number((await fetch(`${url}/api/v1/nothing`)).headers.get('ratelimit-remaining'))
  const run = async (requests: readonly Request[]) => {
    const fromNs = ranNs(exchange.pid)
    await driver.closedLoop(requests, () => undefined)
    return ranNs(exchange.pid) - fromNs
  }
  /** Returns the time of one request. */
  async function measure(requests: Case['requests'], count: number): Promise<number> {
    return (await run(requests(count))) / count
  }
  const firstLooks: (Case & { readonly ns: number; readonly units: number })[] = []
  for (const { name, requests } of cases) {
    const before = await left()
    await run(requests(FIRST_REQUESTS))
    const units = Math.max(1, (before - (await left()) - 1) / FIRST_REQUESTS)
    firstLooks.push({ name, requests, ns: await measure(requests, FIRST_REQUESTS), units })
  }
  const usual = median(firstLooks.map(({ ns, units }) => ns / units)) / 1_000
  const costs: { readonly name: string; readonly us: number; readonly units: number }[] = []
  for (const { name, requests, ns: firstNs, units } of firstLooks) {
    const rounds = [firstNs]
    if (WHOLE || firstNs / 1_000 / units > RATIO_LOOKED_AT_AGAIN * usual) {
      const count = Math.min(REQUESTS_MAX, Math.max(FIRST_REQUESTS, Math.ceil(ROUND_NS / firstNs)))
      rounds.length = 0
      for (let round = 0; round < ROUNDS; round++) rounds.push(await measure(requests, count))
    }
    costs.push({ name, us: median(rounds) / 1_000, units })
  }
  const perUnit = costs.map(({ us, units }) => us / units)
  const table = costs
    .map((cost, at) => ({ ...cost, ratio: perUnit[at]! / usual }))
    .toSorted((a, b) => b.ratio - a.ratio)
    .map(({ name, us, units, ratio }) =>
      [ratio.toFixed(1), `${us.toFixed(0)} µs`, `${units.toFixed(0)} units`, name].join('  '),
    )
  t.diagnostic(`the median of ${costs.length} requests is ${usual.toFixed(0)} µs for a unit`)
  for (const line of table.slice(0, 12)) t.diagnostic(line)
  const dear = costs.filter(({ us, units }) => us / units > RATIO_MAX * usual)
  assert.deepEqual(
    dear.map(({ name }) => name),
    [],
    table.join('\n'),
  )
})
