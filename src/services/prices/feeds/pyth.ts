/**
 * Pyth's Hermes: prices as server-sent events, and the latest or any past price over HTTP. A price is a mantissa with
 * an exponent and a confidence; its time is in whole seconds. The service needs an API key, sent as a bearer token.
 */

import { type Observation, priceOfScaled } from '#domain/asset-price.ts'
import { EventStreamReader } from '#domain/event-stream.ts'
import { PRICE_PROVIDERS, type ProviderSettings, streamUrl } from '#domain/price-providers.ts'
import { type Feed, type FeedPorts, REPORT_CHARS_MAX } from './feed.ts'
import { type LineHooks, makeLine } from './line.ts'
import { getJson, isRecord, messageOf, reportTrouble } from './request.ts'

const PRICE_PATH = '/v2/updates/price'

/** How an update was received: pushed on a connection, or returned over HTTP. */
type Arrival = Pick<Observation, 'raw' | 'via' | 'line'>

/** Makes the parser of price updates. `assets` maps a feed id to its asset. */
function makeParser(assets: ReadonlyMap<string, string>, { clock, troubled }: FeedPorts) {
  /** Parses one entry of an update; returns undefined if the entry has no usable price. */
  function observationOf(entry: unknown, arrival: Arrival): Observation | undefined {
    // The cast is safe: if `id` is not text, the look-up finds no asset.
    const asset = isRecord(entry) ? assets.get(entry.id as string) : undefined
    if (asset === undefined || !isRecord(entry) || !isRecord(entry.price)) {
      troubled('garbage', 'the provider sent a price of a feed that was not requested, or no price')
      return undefined
    }
    const { price: mantissa, conf, expo, publish_time: publishTime } = entry.price
    const price = priceOfScaled(mantissa, expo)
    if (price === undefined || !isCount(conf) || !isSeconds(publishTime)) {
      troubled('garbage', `the price of ${asset} is not valid: ${arrival.raw.slice(0, 200)}`)
      return undefined
    }
    // Price and confidence have the same exponent, so their ratio needs no scaling.
    const share = Number(conf) / Number(mantissa)
    if (share > PRICE_PROVIDERS.pyth.confidenceMax) {
      troubled(
        'unsure',
        `the confidence interval of the price of ${asset} is too wide: ${share} of the price`,
      )
      return undefined
    }
    const atMs = publishTime * 1_000
    return { asset, source: 'pyth', price, atMs, receivedAtMs: clock.nowMs(), ...arrival }
  }

  return (update: unknown, arrival: Arrival): Observation[] => {
    const parsed = isRecord(update) ? update.parsed : undefined
    if (Array.isArray(parsed)) {
      return parsed.flatMap((entry) => observationOf(entry, arrival) ?? [])
    }
    troubled('garbage', 'an update without parsed prices')
    return []
  }
}

export function makePyth(options: ProviderSettings, ports: FeedPorts): Feed {
  const { troubled } = ports
  const pushUrl = streamUrl('pyth', options)
  const assets = new Map(
    Object.entries(options.names).map(([asset, id]) => [
      id.toLowerCase().replace(/^0x/, ''),
      asset,
    ]),
  )
  const { apiKey = '' } = options
  const authorization = apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` }
  const queryOf = (ids: readonly string[]): string =>
    `${ids.map((id) => `ids[]=${id}`).join('&')}&encoding=hex&parsed=true`

  const observationsOf = makeParser(assets, ports)

  function open(hooks: LineHooks): () => void {
    const call = new AbortController()
    const url = `${pushUrl}?${queryOf([...assets.keys()])}`
    void follow(url, call, hooks).catch((error: unknown) => hooks.over(messageOf(error)))
    return () => call.abort()
  }

  async function follow(url: string, call: AbortController, hooks: LineHooks): Promise<void> {
    const headers = { accept: 'text/event-stream', ...authorization }
    const response = await ports.fetch(url, { headers, signal: call.signal })
    if (!response.ok || response.body === null) {
      call.abort()
      troubled('refused', `the price stream answered with HTTP status ${response.status}`)
      hooks.over(`the price stream answered with HTTP status ${response.status}`)
      return
    }
    const reader = new EventStreamReader()
    for await (const chunk of response.body) {
      for (const { data } of reader.take(chunk)) {
        hooks.alive()
        take(data, hooks.number)
      }
    }
    hooks.over('the stream ended')
  }

  function take(data: string, line: number): void {
    let update: unknown
    if (data.length > REPORT_CHARS_MAX) {
      troubled('garbage', 'an update that is too long')
      return
    }
    try {
      update = JSON.parse(data)
    } catch {
      troubled('garbage', data.slice(0, 200))
      return
    }
    const arrival = { raw: data, via: 'stream', line } as const
    for (const one of observationsOf(update, arrival)) ports.observed(one)
  }

  const line = makeLine({
    ports,
    open,
    async poll() {
      try {
        const url = `${options.url}${PRICE_PATH}/latest?${queryOf([...assets.keys()])}`
        const answer = await getJson(ports, url, authorization)
        if (answer === undefined) return
        const arrival = { raw: answer.text, via: 'latest', line: 0 } as const
        for (const one of observationsOf(answer.value, arrival)) ports.observed(one)
      } catch (error) {
        reportTrouble(ports, error)
      }
    },
  })

  return {
    source: 'pyth',
    url: pushUrl,
    start: line.start,
    stop: line.stop,
    isOpen: line.isOpen,
    async priceAt(asset, atMs, withinMs) {
      const id = options.names[asset]
      if (id === undefined) return undefined
      // The provider returns the first update published at this second or later.
      const sec = Math.ceil(atMs / 1_000)
      const url = `${options.url}${PRICE_PATH}/${sec}?${queryOf([id.replace(/^0x/, '')])}`
      const answer = await getJson(ports, url, authorization)
      if (answer === undefined) return undefined
      const arrival = { raw: answer.text, via: 'history', line: 0 } as const
      const [found] = observationsOf(answer.value, arrival)
      const fits = found !== undefined && found.atMs >= atMs && found.atMs <= atMs + withinMs
      return fits ? found : undefined
    },
  }
}

function isCount(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9]{1,24}$/.test(value)
}

function isSeconds(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) > 0 && (value as number) < 1e11
}
