/** Sends signed orders for the markets of a running exchange over HTTP, and measures the CPU time of its threads. */

import { type MarketId, toAddress } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { TIMING_HEADER } from '#http/write-stages.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { makeTrader, type SignedOrder, signOrders, signPermits } from './signed-orders.ts'

const CONNECTIONS = 128
const TRADERS = 100

export type OrderFlow = {
  readonly domain: OrderDomain
  sign(count: number): SignedOrder[]
  /** Opens the connections. Call it after signing, which takes long: the exchange closes connections that are idle. */
  connect(): ReturnType<typeof openDriver>
  /**
   * Returns the CPU seconds used so far, by name: each thread, each front's verify pool, and the whole process as `''`.
   */
  cpuSeconds(): Promise<ReadonlyMap<string, number>>
}

type Config = {
  chains: {
    chainId: number
    contracts: { settlement: string }
    signatures: {
      stablecoinPermit: { domain: { name: string; version: string; verifyingContract: string } }
    }
  }[]
}
type Markets = { markets: { id: MarketId }[] }

export async function openOrderFlow(url: string, { permits = false } = {}): Promise<OrderFlow> {
  const read = async <T>(path: string): Promise<T> => (await fetch(url + path)).json() as Promise<T>
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  const domain = {
    chainId: chain.chainId,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  const markets = (await read<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
  const traders = Array.from({ length: TRADERS }, makeTrader)
  const token = chain.signatures.stablecoinPermit.domain
  const stablecoin = {
    address: toAddress(token.verifyingContract),
    domainName: token.name,
    domainVersion: token.version,
  }
  const more = permits ? { permits: signPermits(traders, domain, stablecoin) } : {}
  return {
    domain,
    sign: (count) => signOrders({ count, traders, markets, domain, ...more }),
    connect: () => openDriver(url, CONNECTIONS),
    cpuSeconds: async () => cpuSecondsIn(await (await fetch(`${url}/metrics`)).text()),
  }
}

export function requestOf(signed: SignedOrder): Request {
  return writeRequest('POST', '/api/v1/orders', JSON.stringify(signed))
}

/** Returns a request whose answer contains the times of its stages. */
export function timedRequestOf(signed: SignedOrder): Request {
  const headers = { [TIMING_HEADER]: '1' }
  return writeRequest('POST', '/api/v1/orders', JSON.stringify(signed), headers)
}

/** Returns the CPU seconds by thread from the text of `/metrics`. */
export function cpuSecondsIn(text: string): Map<string, number> {
  const seconds = new Map([['', Number(/^process_cpu_seconds_total\S* (\S+)/m.exec(text)?.[1])]])
  const line = /^sibyl_thread_cpu_seconds_total\{[^}]*thread="([^"]+)"[^}]*\} (\S+)/gm
  for (const [, thread = '', value] of text.matchAll(line)) seconds.set(thread, Number(value))
  const pool = /^sibyl_verify_cpu_seconds_total\{[^}]*thread="([^"]+)"[^}]*\} (\S+)/gm
  for (const [, front, value] of text.matchAll(pool)) seconds.set(`verify-${front}`, Number(value))
  return seconds
}
