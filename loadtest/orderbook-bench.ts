/**
 * `npm run bench -- orderbook`: measures `GET /api/v1/orderbook/{marketId}` of a running exchange with 50 levels on
 * each side. Its rate is compared with that of a bare uWebSockets.js route that sends the same bytes. The same
 * generator drives both in the same run.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { openExchange } from '../test/support/exchange.ts'
import { type Round, report, runBench } from './bench.ts'
import { chooseGenerator, runLoad } from './http-generator.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const LEVELS = 50
const CONNECTIONS = 64

const generator = chooseGenerator()
const exchange = await openExchange({ environment: { SIBYL_LOG_LEVEL: 'error' } })
const bare = fork(new URL('./bare-server.ts', import.meta.url))
try {
  const [port] = (await once(bare, 'message')) as [number]
  const marketId = await fillBook()
  const url = `${exchange.url}/api/v1/orderbook/${marketId}?outcome=YES`
  const body = await (await fetch(url)).text()
  const shown = JSON.parse(body) as { bids: unknown[]; asks: unknown[] }
  if (shown.bids.length !== LEVELS || shown.asks.length !== LEVELS) throw new Error(body)
  bare.send(body)
  await once(bare, 'message')

  const measure = async (target: string, { quick }: Round): Promise<number> => {
    const seconds = quick ? 1 : 3
    const load = { url: target, connections: CONNECTIONS, seconds }
    return (await runLoad(generator, load)).requestsPerSec
  }
  const result = await runBench({
    bench: 'orderbook',
    unit: `requests/s, ${LEVELS} levels a side`,
    peer: 'a bare uWebSockets.js route sending the same bytes',
    bar: 0.5,
    rounds: 9,
    ours: (round) => measure(url, round),
    theirs: (round) => measure(`http://127.0.0.1:${port}/`, round),
  })
  report(result)
} finally {
  bare.disconnect()
  await exchange.dispose()
}

/** Rests one order at each level: bids from 0.40 down, asks from 0.60 up. */
async function fillBook(): Promise<MarketId> {
  const read = async <T>(path: string): Promise<T> =>
    (await fetch(exchange.url + path)).json() as Promise<T>
  const { chains } = await read<{
    chains: { chainId: number; contracts: { settlement: string } }[]
  }>('/api/v1/config')
  const { markets } = await read<{ markets: { id: MarketId }[] }>('/api/v1/markets')
  const [chain] = chains
  const [market] = markets
  if (chain === undefined || market === undefined)
    throw new Error('the exchange has no chain or no market')
  const domain = {
    chainId: chain.chainId,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  const traders = [makeTrader()]
  for (let level = 0; level < LEVELS; level++) {
    // The first order of a pair sells, the second buys; each pair has its own price.
    const at = (price: number) =>
      signOrders({ count: 2, traders, markets: [market.id], domain, price })
    const [sell] = at(600_000 + level * 1_000)
    const [, buy] = at(400_000 - level * 1_000)
    for (const signed of [sell, buy]) {
      const answer = await fetch(`${exchange.url}/api/v1/orders`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(signed),
      })
      if (answer.status !== 200) throw new Error(await answer.text())
    }
  }
  return market.id
}
