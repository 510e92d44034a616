/**
 * The SDK's functions for prices and quick markets. `stream` reads the price stream as an async iterator that
 * reconnects on its own and resumes at the last price.
 */

import { backoff } from '#domain/backoff.ts'
import { EventStreamReader } from '#domain/event-stream.ts'
import { trimEnd } from '#domain/trim-end.ts'
import type {
  EvidenceAnswer,
  PastPrice,
  Price,
  QuickMarket,
  StreamPrice,
} from '#protocol/shapes/prices.ts'
import { SibylError } from './sibyl-error.ts'
import { type CallOptions, type HeaderLines, pause, type Transport } from './transport.ts'

/** Exchanges of earlier versions omit `providers`. */
export type QuickMarketEvidence = Omit<EvidenceAnswer, 'providers'> &
  Partial<Pick<EvidenceAnswer, 'providers'>>

export type ClientPrices = {
  latest(asset: string, options?: CallOptions): Promise<Price>
  /** Returns the prices of the last 20 minutes, one per second, oldest first. */
  history(asset: string, options?: CallOptions): Promise<PastPrice[]>
  /**
   * Iterates over all prices from now on, beginning with the latest: `for await (const price of …)`. Ends when the
   * signal aborts or the loop ends; throws if the asset does not exist.
   */
  stream(asset: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<StreamPrice>
}

export type ClientQuickMarkets = {
  /** Returns the asset's current quick market; undefined between two quick markets. */
  active(
    asset: string,
    options?: CallOptions,
  ): Promise<{ readonly quickMarket: QuickMarket; readonly bestAskPrice: number } | undefined>
  /** Returns up to 100 quick markets of the asset, newest first. */
  history(asset: string, options?: CallOptions): Promise<QuickMarket[]>
  /** Returns the evidence for a market's outcome, including the reports of the price providers. */
  evidence(asset: string, id: number, options?: CallOptions): Promise<QuickMarketEvidence>
}

export type PricesPorts = {
  readonly send: Transport
  readonly url: string
  readonly headers: (() => HeaderLines | Promise<HeaderLines>) | undefined
  readonly fetch: typeof fetch
  readonly backoffMs: number
}

const BACKOFF_MS_MAX = 10_000
/**
 * If no bytes arrive from the price stream for this many milliseconds, the client closes the connection. Comment lines
 * of the stream count as bytes.
 */
const SILENCE_MS = 45_000

const pathOf = (asset: string, rest = ''): string =>
  `/api/v1/quick-markets/${encodeURIComponent(asset)}${rest}`

export function createPrices(ports: PricesPorts): ClientPrices {
  const { send } = ports
  return {
    latest: (asset, call) => send({ method: 'GET', path: pathOf(asset, '/price') }, call),
    async history(asset, call) {
      const path = pathOf(asset, '/price-history')
      const { prices } = await send<{ prices: PastPrice[] }>({ method: 'GET', path }, call)
      return prices
    },
    stream: (asset, options = {}) => followPrices(ports, asset, options.signal),
  }
}

export function createQuickMarkets({ send }: Pick<PricesPorts, 'send'>): ClientQuickMarkets {
  return {
    async active(asset, call) {
      const { quickMarket, bestAskPrice } = await send<{
        quickMarket: QuickMarket | null
        bestAskPrice?: number
      }>({ method: 'GET', path: pathOf(asset) }, call)
      return quickMarket === null ? undefined : { quickMarket, bestAskPrice: bestAskPrice ?? 0 }
    },
    async history(asset, call) {
      const path = pathOf(asset, '/history')
      const answer = await send<{ quickMarkets: QuickMarket[] }>({ method: 'GET', path }, call)
      return answer.quickMarkets
    },
    evidence: (asset, id, call) =>
      send({ method: 'GET', path: pathOf(asset, `/${id}/evidence`) }, call),
  }
}

async function* followPrices(
  ports: PricesPorts,
  asset: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamPrice> {
  const url = `${trimEnd(ports.url, '/')}${pathOf(asset, '/price-stream')}`
  let lastId = ''
  let failures = 0
  while (signal?.aborted !== true) {
    const call = new AbortController()
    const stop = (): void => call.abort()
    signal?.addEventListener('abort', stop)
    let watchdog: ReturnType<typeof setTimeout> | undefined
    const alive = (): void => {
      clearTimeout(watchdog)
      watchdog = setTimeout(stop, SILENCE_MS)
    }
    try {
      alive()
      const response = await ports.fetch(url, {
        headers: {
          accept: 'text/event-stream',
          ...(await ports.headers?.()),
          ...(lastId === '' ? {} : { 'last-event-id': lastId }),
        },
        signal: call.signal,
      })
      await refuseOthers(response, url)
      const reader = new EventStreamReader()
      for await (const chunk of response.body ?? []) {
        alive()
        for (const { id, data } of reader.take(chunk)) {
          failures = 0
          // After a reconnection without missed prices, the exchange repeats the newest price. Skip it.
          if (id === lastId) continue
          lastId = id
          yield JSON.parse(data) as StreamPrice
        }
      }
    } catch (error) {
      if (error instanceof SibylError && error.status !== 503 && error.status !== 429) throw error
    } finally {
      clearTimeout(watchdog)
      signal?.removeEventListener('abort', stop)
      call.abort()
    }
    const pauseMs = backoff(ports.backoffMs, BACKOFF_MS_MAX, failures++)
    await pause(pauseMs * (0.5 + Math.random() / 2), signal)
  }
}

/** Throws the exchange's error if the response has an error status. */
async function refuseOthers(response: Response, url: string): Promise<void> {
  if (response.ok) return
  const text = await response.text()
  let body: { error?: string; code?: string; field?: string } = {}
  try {
    body = JSON.parse(text) as typeof body
  } catch {
    // The answer is not JSON, so it is not from the exchange, and only its status is known.
  }
  const message = body.error ?? `${url}: HTTP ${response.status}`
  throw new SibylError(body.code ?? 'UNEXPECTED_ANSWER', message, {
    status: response.status,
    field: body.field,
  })
}
