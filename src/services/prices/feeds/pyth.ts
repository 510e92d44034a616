/**
 * Pyth's Hermes: prices pushed as server-sent events, the latest and any past one over HTTP. A price
 * is a mantissa with an exponent and a confidence; its time is in whole seconds. The service needs an
 * API key, sent as a bearer token.
 */

import { type Observation, type ObservedVia, priceOfScaled } from '#domain/asset-price.ts'
import { EventStreamReader } from '#domain/event-stream.ts'
import { type Feed, type FeedPorts, REPORT_CHARS_MAX } from './feed.ts'
import { type LineHooks, makeLine } from './line.ts'
import { getJson, isRecord, messageOf, tellTrouble } from './request.ts'

type PythOptions = {
  /** `https://host/hermes`, without a slash at its end. */
  readonly url: string
  readonly apiKey: string
  /** By asset: the feed's id, 64 hexadecimal digits. */
  readonly ids: Readonly<Record<string, string>>
  /** A price whose confidence is wider than this share of it is not taken. */
  readonly confidenceMax: number
}

const PRICE_PATH = '/v2/updates/price'

export function makePyth(options: PythOptions, ports: FeedPorts): Feed {
  const { clock, troubled } = ports
  const assets = new Map(
    Object.entries(options.ids).map(([asset, id]) => [id.toLowerCase().replace(/^0x/, ''), asset]),
  )
  const authorization = options.apiKey === '' ? {} : { authorization: `Bearer ${options.apiKey}` }
  const queryOf = (ids: readonly string[]): string =>
    `${ids.map((id) => `ids[]=${id}`).join('&')}&encoding=hex&parsed=true`

  function observationsOf(
    update: unknown,
    raw: string,
    via: ObservedVia,
    line: number,
  ): Observation[] {
    const receivedAtMs = clock.nowMs()
    const parsed = isRecord(update) ? update.parsed : undefined
    if (!Array.isArray(parsed)) {
      troubled('garbage', 'an update without parsed prices')
      return []
    }
    const observations: Observation[] = []
    for (const entry of parsed) {
      // What is no text names no asset either.
      const asset = isRecord(entry) ? assets.get(entry.id as string) : undefined
      if (asset === undefined || !isRecord(entry.price)) {
        troubled('garbage', 'a price of no feed that was asked for')
        continue
      }
      const { price: mantissa, conf, expo, publish_time: publishTime } = entry.price
      const price = priceOfScaled(mantissa, expo)
      if (price === undefined || !isCount(conf) || !isSeconds(publishTime)) {
        troubled('garbage', `no price of ${asset}: ${raw.slice(0, 200)}`)
        continue
      }
      // Both have the same exponent, so it does not matter which decimals a price keeps.
      const share = Number(conf) / Number(mantissa)
      if (share > options.confidenceMax) {
        troubled('unsure', `the price of ${asset} is sure to ${share} of it only`)
        continue
      }
      const atMs = publishTime * 1_000
      observations.push({ asset, source: 'pyth', price, atMs, receivedAtMs, via, line, raw })
    }
    return observations
  }

  function open(hooks: LineHooks): () => void {
    const call = new AbortController()
    const url = `${options.url}${PRICE_PATH}/stream?${queryOf([...assets.keys()])}`
    void follow(url, call, hooks).catch((error: unknown) => hooks.over(messageOf(error)))
    return () => call.abort()
  }

  async function follow(url: string, call: AbortController, hooks: LineHooks): Promise<void> {
    const headers = { accept: 'text/event-stream', ...authorization }
    const response = await ports.fetch(url, { headers, signal: call.signal })
    if (!response.ok || response.body === null) {
      call.abort()
      troubled('refused', `the stream answered ${response.status}`)
      hooks.over(`the stream answered ${response.status}`)
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
    for (const observation of observationsOf(update, data, 'stream', line)) ports.heard(observation)
  }

  const line = makeLine({
    ports,
    open,
    async poll() {
      try {
        const url = `${options.url}${PRICE_PATH}/latest?${queryOf([...assets.keys()])}`
        const answer = await getJson(ports, url, authorization)
        if (answer === undefined) return
        const { value, text } = answer
        for (const one of observationsOf(value, text, 'latest', 0)) ports.heard(one)
      } catch (error) {
        tellTrouble(ports, error)
      }
    },
  })

  return {
    source: 'pyth',
    url: `${options.url}${PRICE_PATH}/stream`,
    start: line.start,
    stop: line.stop,
    isOpen: line.isOpen,
    async priceAt(asset, atMs, withinMs) {
      const id = options.ids[asset]
      if (id === undefined) return undefined
      // The service answers the first update that was published at this second or later.
      const sec = Math.ceil(atMs / 1_000)
      const url = `${options.url}${PRICE_PATH}/${sec}?${queryOf([id.replace(/^0x/, '')])}`
      const answer = await getJson(ports, url, authorization)
      if (answer === undefined) return undefined
      const [found] = observationsOf(answer.value, answer.text, 'history', 0)
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
