/** Quick markets of an asset: the one of this moment, those before it, and how one was decided. */

import Type from 'typebox'
import { checksumAddress } from '#domain/checksum-address.ts'
import { QUICK_MARKETS_LISTED_MAX } from '#domain/limits.ts'
import { YES } from '#domain/order.ts'
import {
  averagedSecs,
  decidingPrice,
  endSecOf,
  type Mark,
  type QuickMarket as QuickMarketRecord,
} from '#domain/quick-market.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import { QuickMarket } from '#live/asset-shapes.ts'
import type { MarketBoard } from '#live/market-board.ts'
import { activeMarket, type PriceBoard, quickMarketBody } from '#live/price-board.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { MARKET_ID } from '../orders/order-examples.ts'
import { assetParams, shownAsset } from './prices.ts'

const common = { method: 'GET', auth: 'public', cost: 'read', tag: 'quick markets' } as const

const EXAMPLE = {
  id: 7,
  marketId: MARKET_ID,
  asset: 'BTC',
  intervalMinutes: 15,
  intervalSeconds: 900,
  startPrice: 6_415_243_000_000,
  startTime: 1_800_000_000,
  endTime: 1_800_000_900,
  resolved: false,
  priceSource: 'pyth',
  createdAt: 1_800_000_000,
  endPrice: null,
  outcome: null,
}
const RESOLVED = { ...EXAMPLE, resolved: true, endPrice: 6_415_243_000_001, outcome: 0 }

const ObservationShape = Type.Object(
  {
    source: Type.String({ description: 'Who reported it' }),
    boundary: Type.Integer({ description: 'Unix seconds: the start or the end' }),
    price: Type.Integer({ description: 'USD, 8 decimals' }),
    timestamp: Type.Integer({ description: 'Unix milliseconds, by the provider’s clock' }),
    receivedAt: Type.Integer({ description: 'Unix milliseconds, by ours' }),
    via: Type.Enum(['stream', 'latest', 'history'], {
      description: 'Pushed, asked for, or from the provider’s history',
    }),
    exact: Type.Boolean({
      description: 'Whether it is certain that the provider reported nothing in between',
    }),
    report: Type.String({ description: 'As the provider sent it' }),
  },
  { title: 'PriceObservation' },
)

function observationBody(mark: Mark) {
  const { source, boundarySec, price, atMs, receivedAtMs, via, exact, raw } = mark
  const times = { boundary: boundarySec, timestamp: atMs, receivedAt: receivedAtMs }
  return { source, price, ...times, via, exact, report: raw }
}

export function quickMarketRoutes(ports: {
  readonly prices: PriceBoard
  readonly board: MarketBoard
  readonly waiters: Pick<SeqWaiters, 'untilFollowed'>
  readonly list: (
    asset: string,
    limit: number,
    beforeSec: number | undefined,
  ) => Promise<QuickMarketRecord[]>
  readonly find: (id: number) => Promise<QuickMarketRecord | undefined>
  readonly nowMs: () => number
}): AnswerRoute[] {
  const { prices, board } = ports
  return [
    route({
      ...common,
      path: '/api/v1/quick-markets/{asset}',
      operationId: 'getQuickMarket',
      summary: 'The quick market of this moment',
      description:
        'Whether the price at the end is at or above the price at the start. It can be traded at ' +
        'once: its id follows from its asset and time, also before it is on chain.',
      params: assetParams,
      errors: ['ASSET_NOT_FOUND'],
      responses: {
        200: Type.Object({
          active: Type.Boolean(),
          asset: Type.String(),
          quickMarket: Type.Union([QuickMarket, Type.Null()]),
          bestAskPrice: Type.Optional(
            Type.Integer({ description: 'Best YES ask, 6 decimals; 0 when there is none' }),
          ),
          nextMarket: Type.Optional(Type.Null()),
        }),
      },
      examples: {
        responses: {
          200: {
            active: {
              value: { active: true, asset: 'BTC', quickMarket: EXAMPLE, bestAskPrice: 510_000 },
            },
            'not active': {
              value: { active: false, asset: 'BTC', nextMarket: null, quickMarket: null },
            },
          },
        },
      },
      async handle(request) {
        const shown = shownAsset(prices, request.path.asset)
        if ('rejected' in shown) return shown
        const { asset } = shown
        const active = activeMarket(shown, ports.nowMs())
        if (active === undefined) {
          const body = { active: false, asset, nextMarket: null, quickMarket: null }
          return { status: 200, body }
        }
        const late = await ports.waiters.untilFollowed([active.marketId], request)
        if (late !== undefined) return late
        const bestAskPrice = board.markets.get(active.marketId)?.books[YES].bestAsk ?? 0
        const quickMarket = quickMarketBody(active)
        return { status: 200, body: { active: true, asset, quickMarket, bestAskPrice } }
      },
    }),
    route({
      ...common,
      path: '/api/v1/quick-markets/{asset}/history',
      operationId: 'listQuickMarkets',
      summary: 'The newest quick markets of an asset',
      description:
        'Up to 100, newest first, the one of this moment included; earlier ones with `before`.',
      params: assetParams,
      query: Type.Object(
        {
          before: Type.Optional(
            safeInteger({ min: 0, description: 'Only those that started before, Unix seconds' }),
          ),
        },
        { additionalProperties: false },
      ),
      errors: ['ASSET_NOT_FOUND'],
      responses: {
        200: Type.Object({
          asset: Type.String(),
          quickMarkets: Type.Array(QuickMarket),
          count: Type.Integer(),
          nextBefore: Type.Union([Type.Integer(), Type.Null()], {
            description: 'Pass it as `before` for what came earlier; null at the end',
          }),
        }),
      },
      examples: {
        responses: {
          200: {
            one: { value: { asset: 'BTC', quickMarkets: [RESOLVED], count: 1, nextBefore: null } },
          },
        },
      },
      async handle({ path, query }) {
        const shown = shownAsset(prices, path.asset)
        if ('rejected' in shown) return shown
        const { asset } = shown
        const found = await ports.list(asset, QUICK_MARKETS_LISTED_MAX, query.before)
        const quickMarkets = found.map(quickMarketBody)
        const isFull = quickMarkets.length === QUICK_MARKETS_LISTED_MAX
        const nextBefore = isFull ? (quickMarkets.at(-1)?.startTime ?? null) : null
        return {
          status: 200,
          body: { asset, quickMarkets, count: quickMarkets.length, nextBefore },
        }
      },
    }),
    route({
      ...common,
      path: '/api/v1/quick-markets/{asset}/{id}/evidence',
      operationId: 'getQuickMarketEvidence',
      summary: 'How a quick market was decided',
      description:
        'Both observations with the providers’ own reports, and the comparison. `decidedBy` differs ' +
        'from the source of the strike only where that source could not tell the end; then both ' +
        'prices are of the source that decided. `compared` has what the other sources reported; where ' +
        'one of them saw the price go the other way, `average` decided, and has what it is made of.',
      params: Type.Object(
        { ...assetParams.properties, id: safeInteger({ min: 1, description: 'The record' }) },
        { additionalProperties: false },
      ),
      errors: ['ASSET_NOT_FOUND', 'NOT_FOUND'],
      responses: {
        200: Type.Object({
          quickMarket: QuickMarket,
          chainId: Type.Integer(),
          contractAddress: Type.String(),
          strike: ObservationShape,
          decidedBy: Type.Union([Type.String(), Type.Null()]),
          start: Type.Union([ObservationShape, Type.Null()]),
          end: Type.Union([ObservationShape, Type.Null()]),
          compared: Type.Array(
            Type.Object({
              start: Type.Union([ObservationShape, Type.Null()]),
              end: ObservationShape,
            }),
            { description: 'The other sources, by which the side was checked' },
          ),
          average: Type.Union([
            Type.Object({
              price: Type.Integer({ description: 'The mean, rounded down; USD, 8 decimals' }),
              observations: Type.Array(ObservationShape),
            }),
            Type.Null(),
          ]),
          rule: Type.String(),
          comparison: Type.Union([Type.String(), Type.Null()]),
          onChain: Type.Enum(['pending', 'created', 'reported']),
          createTxHash: Type.String(),
          reportTxHash: Type.String(),
        }),
      },
      async handle({ path }) {
        const shown = shownAsset(prices, path.asset)
        if ('rejected' in shown) return shown
        const found = await ports.find(path.id)
        if (found === undefined || found.asset !== shown.asset) {
          return reject('NOT_FOUND', 'id', `${shown.asset} has no quick market ${path.id}`)
        }
        return { status: 200, body: evidenceOf(found) }
      },
    }),
  ]
}

function evidenceOf(found: QuickMarketRecord) {
  const { resolution } = found
  const comparison =
    resolution === null
      ? null
      : `${decidingPrice(resolution)} ${resolution.outcome === YES ? '>=' : '<'} ${resolution.start.price}` +
        `: ${resolution.outcome === YES ? 'YES' : 'NO'}`
  return {
    quickMarket: quickMarketBody(found),
    chainId: found.chainId,
    contractAddress: checksumAddress(found.contractAddress),
    strike: observationBody(found.strike),
    decidedBy: resolution?.source ?? null,
    start: resolution === null ? null : observationBody(resolution.start),
    end: resolution === null ? null : observationBody(resolution.end),
    compared: (resolution?.compared ?? []).map(({ start, end }) => ({
      start: start === null ? null : observationBody(start),
      end: observationBody(end),
    })),
    average:
      resolution?.average === undefined
        ? null
        : {
            price: resolution.average.price,
            observations: resolution.average.marks.map(observationBody),
          },
    rule:
      'YES when the price at the end is at or above the price at the start: the first report of one ' +
      `source at or after ${found.startSec} and ${endSecOf(found)}. Where another source saw the price ` +
      'go the other way between its own two reports, the mean of the first reports at or after ' +
      `${averagedSecs(endSecOf(found), found.intervalSec).join(', ')} is the end`,
    comparison,
    onChain: found.onChain,
    createTxHash: found.createTxHash,
    reportTxHash: found.reportTxHash,
  }
}
