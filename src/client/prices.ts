/**
 * The SDK's prices and quick markets. `stream` reads the price stream as an async iterator that
 * survives its connection: it comes back by itself, from where it was.
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

/** Exchanges of earlier versions leave `providers` out. */
export type QuickMarketEvidence = Omit<EvidenceAnswer, 'providers'> &
  Partial<Pick<EvidenceAnswer, 'providers'>>

export type ClientPrices = {
  latest(asset: string, options?: CallOptions): Promise<Price>
  /** The last 20 minutes, one price a second, the earliest first. */
  history(asset: string, options?: CallOptions): Promise<PastPrice[]>
  /**
   * Every price from now on, beginning with the latest: `for await (const price of …)`. It ends when
   * the signal aborts or the loop is left; an asset that does not exist throws.
   */
  stream(asset: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<StreamPrice>
}

export type ClientQuickMarkets = {
  /** The market of this moment; undefined between two of them. */
  active(
    asset: string,
    options?: CallOptions,
  ): Promise<{ readonly quickMarket: QuickMarket; readonly bestAskPrice: number } | undefined>
  /** Up to 100, the newest first. */
  history(asset: string, options?: CallOptions): Promise<QuickMarket[]>
  /** How one was decided, with the providers' own reports. */
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
/** Nothing, not even a comment, for so long: the connection is given up. */
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
          // After a return with nothing missed, the exchange shows the latest price again.
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

/** An answer that is no stream is an error, with what the exchange says about it. */
async function refuseOthers(response: Response, url: string): Promise<void> {
  if (response.ok) return
  const text = await response.text()
  let body: { error?: string; code?: string; field?: string } = {}
  try {
    body = JSON.parse(text) as typeof body
  } catch {
    // The answer is not the exchange's; its status is all there is to tell.
  }
  const message = body.error ?? `${url}: HTTP ${response.status}`
  throw new SibylError(body.code ?? 'UNEXPECTED_ANSWER', message, {
    status: response.status,
    field: body.field,
  })
}
