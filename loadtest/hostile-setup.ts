/**
 * Prepares an exchange for the attacks: makes one book deep, and fills the caches of the databases. Also reads the
 * domain and the markets for the attackers and the honest client.
 */

import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { json } from 'node:stream/consumers'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { BUY } from '#domain/order.ts'
import { makeTrader, type SignedOrder, signOrders } from './signed-orders.ts'

/**
 * Client address for reading the lists of markets. Neither other kind of address is suitable: reads from the honest
 * client's address would delay its orders, and an attacker's address may have used up its rate limit.
 */
const LISTS_FROM = '127.0.8.254'
const BATCH_ORDERS = 50
/**
 * Number of orders that are sent from each address. It is below the 400 orders that the rate limit of an address allows
 * in a burst.
 */
const ADDRESS_ORDERS = 300

/** Reads the domain for which orders of the exchange's first chain are signed. */
export async function readDomain(
  url: string,
): Promise<{ chainId: number; verifyingContract: Address }> {
  const config = await read<{
    chains: { chainId: number; contracts: { settlement: string } }[]
  }>(`${url}/api/v1/config`)
  const [chain] = config.chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  return { chainId: chain.chainId, verifyingContract: toAddress(chain.contracts.settlement) }
}

/** Returns the ids of up to 1,000 markets. */
export async function readMarkets(url: string): Promise<MarketId[]> {
  const list = `${url}/api/v1/markets?limit=1000`
  const { markets } = await read<{ markets: { id: MarketId }[] }>(list, LISTS_FROM)
  return markets.map(({ id }) => id)
}

/** Returns the market with the deep book. */
export async function firstMarket(url: string): Promise<MarketId> {
  const [first] = (await readMarkets(url)).sort()
  if (first === undefined) throw new Error('the exchange has no market')
  return first
}

/** Makes the first market's YES book deep: resting bids, each at a price of its own. */
export async function deepenBook(url: string, levels = 8_000): Promise<void> {
  const domain = await readDomain(url)
  const markets = [await firstMarket(url)]
  const traders = [makeTrader()]
  const bids = Array.from({ length: levels }, (_, level) => {
    const price = 1_000 + 10 * level
    return signOrders({ count: 1, traders, markets, domain, price, side: BUY })[0]!
  })
  await postAll(url, '127.0.8', bids)
}

/**
 * Places orders until the caches of the databases are full, like those of an exchange that has run for some time. The
 * event log's cache of 16 MiB holds about 25,000 orders. The database's cache of 64 MiB holds about 65,000. During an
 * attack, memory then grows only by what the attack adds.
 */
export async function fillCaches(url: string, orders = 70_000): Promise<void> {
  const domain = await readDomain(url)
  const markets = await readMarkets(url)
  await postAll(
    url,
    '127.0.7',
    signOrders({ count: orders, traders: [makeTrader()], markets, domain }),
  )
}

/** Posts the orders in batches, from several addresses of a network such as `127.0.8`. */
async function postAll(
  url: string,
  network: string,
  orders: readonly SignedOrder[],
): Promise<void> {
  for (let from = 0; from < orders.length; from += BATCH_ORDERS) {
    const batch = { orders: orders.slice(from, from + BATCH_ORDERS) }
    const address = `${network}.${1 + Math.floor(from / ADDRESS_ORDERS)}`
    await post(url, address, JSON.stringify(batch))
  }
}

async function read<T>(url: string, address?: string): Promise<T> {
  const asked = get(url, address === undefined ? {} : { localAddress: address })
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  return json(response) as Promise<T>
}

/** Posts orders from a local address, so that the rate limit of one address does not delay all orders. */
function post(url: string, address: string, body: string): Promise<void> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: address })
    socket.on('error', reject)
    socket.once('data', (chunk) => {
      const status = chunk.toString('latin1', 9, 12)
      socket.destroy()
      if (status === '200' || status === '207') resolve()
      else reject(new Error(`POST /api/v1/orders/batch returned ${chunk.toString('latin1')}`))
    })
    socket.write(
      `POST /api/v1/orders/batch HTTP/1.1\r\nHost: ${hostname}:${port}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  })
}
