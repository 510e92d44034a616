/**
 * Coinbase Exchange: its `ticker` channel over a WebSocket, with `heartbeat` each second as a sign of life, and the
 * ticker of a product over HTTP. The history consists of one-minute candles. The `open` of a candle is the first trade
 * at or after the start of its minute. So the history has prices for whole minutes only.
 */

import { type Observation, priceOfDecimal } from '#domain/asset-price.ts'
import { type ProviderSettings, streamUrl } from '#domain/price-providers.ts'
import type { Feed, FeedPorts } from './feed.ts'
import { makeLine } from './line.ts'
import { getJson, isRecord, reportTrouble } from './request.ts'
import { openLine } from './socket-line.ts'

/** Messages without a price. */
const OTHERS: ReadonlySet<unknown> = new Set(['subscriptions', 'heartbeat'])
const MINUTE_MS = 60_000
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/

export function makeCoinbase(options: ProviderSettings, ports: FeedPorts): Feed {
  const { clock } = ports
  const url = streamUrl('coinbase', options)
  const entries = Object.entries(options.names)
  const assets = new Map(entries.map(([asset, product]) => [product, asset]))
  const hello = JSON.stringify({
    type: 'subscribe',
    product_ids: [...assets.keys()],
    channels: ['ticker', 'heartbeat'],
  })

  function observationOf(
    asset: string | undefined,
    ticker: unknown,
    how: Pick<Observation, 'raw' | 'via' | 'line'>,
  ): Observation | undefined {
    if (asset === undefined || !isRecord(ticker)) return undefined
    const price = priceOfDecimal(ticker.price)
    const time = ticker.time
    if (price === undefined || typeof time !== 'string' || !TIME.test(time)) return undefined
    const atMs = Date.parse(time)
    if (Number.isNaN(atMs)) return undefined
    const receivedAtMs = clock.nowMs()
    return { asset, source: 'coinbase', price, atMs, receivedAtMs, ...how }
  }

  const line = makeLine({
    ports,
    open: (hooks) =>
      openLine(ports, url, hooks, {
        hello,
        take(message, text) {
          if (!isRecord(message)) return false
          if (OTHERS.has(message.type)) return true
          if (message.type !== 'ticker') return false
          // The cast is safe: if `product_id` is not text, the look-up finds no asset.
          const asset = assets.get(message.product_id as string)
          const how = { raw: text, via: 'stream', line: hooks.number } as const
          const observation = observationOf(asset, message, how)
          if (observation !== undefined) ports.observed(observation)
          return observation !== undefined
        },
      }),
    async poll() {
      for (const [asset, product] of entries) {
        try {
          const answer = await getJson(ports, `${options.url}/products/${product}/ticker`)
          if (answer === undefined) continue
          const how = { raw: answer.text, via: 'latest', line: 0 } as const
          const one = observationOf(asset, answer.value, how)
          if (one !== undefined) ports.observed(one)
          else ports.troubled('garbage', answer.text.slice(0, 200))
        } catch (error) {
          reportTrouble(ports, error)
        }
      }
    },
  })

  return {
    source: 'coinbase',
    url,
    start: line.start,
    stop: line.stop,
    isOpen: line.isOpen,
    async priceAt(asset, atMs) {
      const product = options.names[asset]
      if (product === undefined || atMs % MINUTE_MS !== 0) return undefined
      const sec = atMs / 1_000
      // Use only complete candles: the current candle may not contain its first trade yet.
      if (clock.nowMs() < atMs + MINUTE_MS) return undefined
      const range = `granularity=60&start=${sec}&end=${sec + 60}`
      const answer = await getJson(ports, `${options.url}/products/${product}/candles?${range}`)
      if (answer === undefined || !Array.isArray(answer.value)) return undefined
      for (const candle of answer.value) {
        if (!Array.isArray(candle) || candle[0] !== sec) continue
        // A price in a candle is a JSON number. Its conversion to text gives the decimal that Coinbase sent.
        const price = priceOfDecimal(String(candle[3]))
        if (price === undefined) return undefined
        const raw = JSON.stringify(candle)
        const receivedAtMs = clock.nowMs()
        const fixed = { source: 'coinbase', via: 'history', line: 0 } as const
        return { ...fixed, asset, price, atMs, receivedAtMs, raw }
      }
      return undefined
    },
  }
}
