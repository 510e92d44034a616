/**
 * Binance: aggregated trades over a WebSocket (`<symbol>@aggTrade`), and the newest or earlier trades over HTTP.
 * Prices are in USDT, which is near a dollar but not a dollar. The plain ticker of Binance's API is not used: it
 * contains no time, so the age of its price is unknown.
 */

import { type Observation, type ObservedVia, priceOfDecimal } from '#domain/asset-price.ts'
import { type ProviderSettings, streamUrl } from '#domain/price-providers.ts'
import type { Feed, FeedPorts } from './feed.ts'
import { makeLine } from './line.ts'
import { getJson, isRecord, reportTrouble } from './request.ts'
import { openLine } from './socket-line.ts'

export function makeBinance(options: ProviderSettings, ports: FeedPorts): Feed {
  const { clock } = ports
  const url = streamUrl('binance', options)
  const entries = Object.entries(options.names)
  const assets = new Map(entries.map(([asset, symbol]) => [symbol.toUpperCase(), asset]))
  const streams = entries.map(([, symbol]) => `${symbol.toLowerCase()}@aggTrade`).join('/')

  function observationOf(
    asset: string | undefined,
    trade: unknown,
    how: Pick<Observation, 'raw' | 'via' | 'line'>,
  ): Observation | undefined {
    if (asset === undefined || !isRecord(trade)) return undefined
    const price = priceOfDecimal(trade.p)
    const atMs = trade.T
    if (price === undefined || !Number.isSafeInteger(atMs)) return undefined
    const receivedAtMs = clock.nowMs()
    return {
      asset,
      source: 'binance',
      price,
      atMs: atMs as number,
      receivedAtMs,
      ...how,
    }
  }

  /** Returns trades of one symbol over HTTP, the earliest first. */
  async function tradesOf(asset: string, query: string, via: ObservedVia): Promise<Observation[]> {
    const trades = `${options.url}/api/v3/aggTrades?symbol=${options.names[asset]}&${query}`
    const answer = await getJson(ports, trades)
    if (answer === undefined) return []
    if (!Array.isArray(answer.value)) {
      ports.troubled('garbage', answer.text.slice(0, 200))
      return []
    }
    const observations: Observation[] = []
    for (const trade of answer.value) {
      const observation = observationOf(asset, trade, { raw: answer.text, via, line: 0 })
      if (observation !== undefined) observations.push(observation)
      else ports.troubled('garbage', answer.text.slice(0, 200))
    }
    return observations
  }

  const line = makeLine({
    ports,
    open: (hooks) =>
      openLine(ports, `${url}?streams=${streams}`, hooks, {
        take(message, text) {
          if (!isRecord(message)) return false
          // The server announces a shutdown and will close the connection.
          if (message.e === 'serverShutdown') return true
          const { data } = message
          if (!isRecord(data) || data.e !== 'aggTrade') return false
          // The cast is safe: if `data.s` is not text, the look-up finds no asset.
          const asset = assets.get(data.s as string)
          const how = { raw: text, via: 'stream', line: hooks.number } as const
          const observation = observationOf(asset, data, how)
          if (observation !== undefined) ports.observed(observation)
          return observation !== undefined
        },
      }),
    async poll() {
      for (const [asset] of entries) {
        try {
          for (const one of await tradesOf(asset, 'limit=1', 'latest')) ports.observed(one)
        } catch (error) {
          reportTrouble(ports, error)
        }
      }
    },
  })

  return {
    source: 'binance',
    url,
    start: line.start,
    stop: line.stop,
    isOpen: line.isOpen,
    async priceAt(asset, atMs, withinMs) {
      if (options.names[asset] === undefined) return undefined
      const query = `startTime=${atMs}&endTime=${atMs + withinMs}&limit=1`
      const [first] = await tradesOf(asset, query, 'history')
      const fits = first !== undefined && first.atMs >= atMs && first.atMs <= atMs + withinMs
      return fits ? first : undefined
    },
  }
}
