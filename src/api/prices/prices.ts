/** Prices of an asset: the latest, the last twenty minutes, and their stream. */

import Type from 'typebox'
import { parseAsset, priceUsd } from '#domain/asset-price.ts'
import { PRICE_HISTORY_SEC } from '#domain/limits.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { type Route, route, sseRoute } from '#http/route.ts'
import type { SseHub } from '#http/sse.ts'
import { firstEvents, type PriceBoard, type ShownAsset } from '#live/price-board.ts'
import { PastPrice, Price, StreamPrice } from '#protocol/shapes/prices.ts'

export const assetParams = Type.Object(
  {
    asset: Type.String({
      minLength: 1,
      maxLength: 16,
      description: 'Symbol of the asset, in upper or lower case',
    }),
  },
  { additionalProperties: false },
)

/** Returns the asset named in a path, or a rejection if the exchange has no such asset. */
export function shownAsset(board: PriceBoard, text: string): ShownAsset | Rejection {
  const asset = parseAsset(text)
  const shown = asset === undefined ? undefined : board.assets.get(asset)
  return shown ?? reject('ASSET_NOT_FOUND', 'asset')
}

const common = { method: 'GET', auth: 'public', cost: 'read', tag: 'quick markets' } as const
const EXAMPLE = { price: 6_415_243_000_000, priceUSD: 64_152.43 }

type PricePorts = {
  readonly board: PriceBoard
  readonly hub: SseHub
  /** Returns the address of a provider's API. */
  readonly urlOf: (source: PriceSource) => string
  readonly ageMsMax: number
  readonly nowMs: () => number
}

function latestRoute({ board, urlOf, ageMsMax, nowMs }: PricePorts): Route {
  return route({
    ...common,
    path: '/api/v1/quick-markets/{asset}/price',
    operationId: 'getPrice',
    summary: 'Get the latest price of an asset',
    description:
      'The answer has the latest price and its time, even if the price is old. `stale` is true while no provider ' +
      'delivers prices of the asset, or while this server has no connection to the price service.',
    params: assetParams,
    errors: ['ASSET_NOT_FOUND', 'PRICE_UNAVAILABLE'],
    responses: {
      200: Price,
    },
    examples: {
      responses: {
        200: {
          'a price': {
            value: {
              asset: 'BTC',
              ...EXAMPLE,
              timestamp: 1_800_000_000,
              source: 'https://pyth.dourolabs.app/hermes/v2/updates/price/stream',
              sourceName: 'pyth',
              stale: false,
            },
          },
        },
      },
    },
    handle({ path }) {
      const shown = shownAsset(board, path.asset)
      if ('rejected' in shown) return shown
      const { asset, latest, speaker, why } = shown
      if (latest === undefined) {
        return reject('PRICE_UNAVAILABLE', undefined, `there is no price of ${asset} now: ${why}`)
      }
      const { price, atMs, source } = latest
      return {
        status: 200,
        body: {
          asset,
          price,
          priceUSD: priceUsd(price),
          timestamp: Math.floor(atMs / 1_000),
          source: urlOf(source),
          sourceName: source,
          stale: speaker === undefined || nowMs() - atMs > ageMsMax,
        },
      }
    },
  })
}

function historyRoute({ board, nowMs }: PricePorts): Route {
  return route({
    ...common,
    path: '/api/v1/quick-markets/{asset}/price-history',
    operationId: 'listPrices',
    summary: `List the prices of the last ${PRICE_HISTORY_SEC / 60} minutes`,
    description: 'The list has the last price of each second, oldest first.',
    params: assetParams,
    errors: ['ASSET_NOT_FOUND'],
    responses: {
      200: Type.Object({
        asset: Type.String(),
        prices: Type.Array(PastPrice),
        count: Type.Integer(),
      }),
    },
    examples: {
      responses: {
        200: {
          'one price': {
            value: {
              asset: 'BTC',
              prices: [{ ...EXAMPLE, timestamp: 1_800_000_000, source: 'pyth' }],
              count: 1,
            },
          },
        },
      },
    },
    handle({ path }) {
      const shown = shownAsset(board, path.asset)
      if ('rejected' in shown) return shown
      const fromMs = nowMs() - PRICE_HISTORY_SEC * 1_000
      const recent = shown.history.filter(({ atMs }) => atMs >= fromMs)
      const prices = recent.map(({ price, atMs, source }) => ({
        price,
        priceUSD: priceUsd(price),
        timestamp: Math.floor(atMs / 1_000),
        source,
      }))
      return { status: 200, body: { asset: shown.asset, prices, count: prices.length } }
    },
  })
}

function streamRoute({ board, hub }: PricePorts): Route {
  /**
   * Returns the asset of a stream request. `refuse` has already rejected requests for unknown assets, so an unknown
   * asset is a bug and throws.
   */
  function checked(path: { readonly asset: string }): ShownAsset {
    const shown = shownAsset(board, path.asset)
    if ('rejected' in shown) throw new Error('the asset must be checked before the stream opens')
    return shown
  }
  return sseRoute({
    ...common,
    kind: 'sse',
    path: '/api/v1/quick-markets/{asset}/price-stream',
    operationId: 'streamPrices',
    summary: 'Stream live prices of an asset, as server-sent events',
    description:
      'The server immediately sends the latest price, then one event for each new price. If the ' +
      'request has the header `Last-Event-ID`, and the server still has the event with this id, ' +
      'it sends all later prices first. Comments keep an idle connection alive. If a client ' +
      'reads too slowly, the server skips prices and then sends only the newest one. If a client ' +
      'reads nothing, the server closes the connection.',
    params: assetParams,
    headers: ['last-event-id'],
    errors: ['ASSET_NOT_FOUND', 'OVERLOADED'],
    event: StreamPrice,
    refuse({ path, ip }) {
      const shown = shownAsset(board, path.asset)
      if ('rejected' in shown) return shown
      return hub.flawOf(ip)
    },
    first: ({ path, headers }) => firstEvents(checked(path), headers['last-event-id'] ?? ''),
    open({ path, ip }, takeover, first) {
      hub.open(checked(path).asset, takeover, { ip, first })
    },
  })
}

export function priceRoutes(ports: PricePorts): Route[] {
  return [latestRoute(ports), historyRoute(ports), streamRoute(ports)]
}
