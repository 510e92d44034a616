/** Quick markets of an asset: the current one, earlier ones, and the evidence that decided one of them. */

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
  type QuickResolution,
  type SourceMarks,
} from '#domain/quick-market.ts'
import { moveBps } from '#domain/quick-votes.ts'
import { reject } from '#domain/rejection.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import { activeMarket, type PriceBoard, quickMarketBody } from '#live/price-board.ts'
import type { SeqWaiters } from '#live/seq-waiters.ts'
import { DIRECTIONS, EvidenceAnswer, QuickMarket } from '#protocol/shapes/prices.ts'
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
  verdict: 'open',
} as const
const RESOLVED = {
  ...EXAMPLE,
  ...{ resolved: true, endPrice: 6_415_243_000_001, outcome: 0, verdict: 'prices' },
} as const

function observationBody(mark: Mark) {
  const { source, boundarySec, price, atMs, receivedAtMs, via, exact, raw } = mark
  const times = { boundary: boundarySec, timestamp: atMs, receivedAt: receivedAtMs }
  return { source, price, ...times, via, exact, report: raw }
}

type QuickMarketPorts = {
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
}

function currentRoute({ prices, board, waiters, nowMs }: QuickMarketPorts): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/quick-markets/{asset}',
    operationId: 'getQuickMarket',
    summary: 'Get the current quick market of an asset',
    description:
      'A quick market resolves to YES if the price at the end is at or above the price at the start. Traders ' +
      'can place orders in it before it is on the chain, because its id depends only on the asset and the ' +
      'time and is therefore known in advance.',
    params: assetParams,
    errors: ['ASSET_NOT_FOUND'],
    responses: {
      200: Type.Object({
        active: Type.Boolean(),
        asset: Type.String(),
        quickMarket: Type.Union([QuickMarket, Type.Null()]),
        bestAskPrice: Type.Optional(
          Type.Integer({
            description: 'Best YES ask, in millionths of a dollar; 0 if there is none',
          }),
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
      const active = activeMarket(shown, nowMs())
      if (active === undefined) {
        const body = { active: false, asset, nextMarket: null, quickMarket: null }
        return { status: 200, body }
      }
      const late = await waiters.untilFollowed([active.marketId], request)
      if (late !== undefined) return late
      const bestAskPrice = board.markets.get(active.marketId)?.books[YES].bestAsk ?? 0
      const quickMarket = quickMarketBody(active)
      return { status: 200, body: { active: true, asset, quickMarket, bestAskPrice } }
    },
  })
}

function historyRoute({ prices, list }: QuickMarketPorts): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/quick-markets/{asset}/history',
    operationId: 'listQuickMarkets',
    summary: 'List the newest quick markets of an asset',
    description:
      `The list has at most ${QUICK_MARKETS_LISTED_MAX} quick markets, newest first, including the current ` +
      'one. `before` lists earlier ones.',
    params: assetParams,
    query: Type.Object(
      {
        before: Type.Optional(
          safeInteger({
            min: 0,
            description: 'Lists only quick markets that started before this time, in Unix seconds',
          }),
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
          description: 'Value of `before` for the next page; null on the last page',
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
      const found = await list(asset, QUICK_MARKETS_LISTED_MAX, query.before)
      const quickMarkets = found.map(quickMarketBody)
      const isFull = quickMarkets.length === QUICK_MARKETS_LISTED_MAX
      const nextBefore = isFull ? (quickMarkets.at(-1)?.startTime ?? null) : null
      return {
        status: 200,
        body: { asset, quickMarkets, count: quickMarkets.length, nextBefore },
      }
    },
  })
}

function evidenceRoute({ prices, find }: QuickMarketPorts): AnswerRoute {
  return route({
    ...common,
    path: '/api/v1/quick-markets/{asset}/{id}/evidence',
    operationId: 'getQuickMarketEvidence',
    summary: 'Get the evidence of how a quick market was decided',
    description:
      'The answer has the prices at the start and the end, the reports of these prices as the ' +
      'sources sent them, and a comparison of the prices. `decidedBy` is the source whose prices ' +
      'decide the outcome. This is the source of the strike (the price at the start). If that ' +
      'source gives no usable price at the end in time, another source decides, with its own ' +
      'prices at the start and at the end. `providers` has the reports of every source. Each ' +
      'source whose price has changed votes for the outcome that its own prices give. If more ' +
      'sources vote for the outcome of the deciding source than against it, the end price ' +
      'decides. Otherwise, the mean of earlier prices of the deciding source (`average`) ' +
      'replaces the end price. The market is contested if at least as many sources contradict ' +
      'the end price by more than a configured bound as support it, and if the average does not ' +
      'change the outcome or is incomplete. Then the optimistic oracle decides: `decidedBy` is ' +
      'null until its decision, and `oracle` afterwards.',
    params: Type.Object(
      {
        ...assetParams.properties,
        id: safeInteger({ min: 1, description: 'Id of the quick market (field `id`)' }),
      },
      { additionalProperties: false },
    ),
    errors: ['ASSET_NOT_FOUND', 'NOT_FOUND'],
    responses: {
      200: EvidenceAnswer,
    },
    async handle({ path }) {
      const shown = shownAsset(prices, path.asset)
      if ('rejected' in shown) return shown
      const found = await find(path.id)
      if (found === undefined || found.asset !== shown.asset) {
        return reject(
          'NOT_FOUND',
          'id',
          `${shown.asset} has no quick market with the id ${path.id}`,
        )
      }
      return { status: 200, body: evidenceOf(found) }
    },
  })
}

export function quickMarketRoutes(ports: QuickMarketPorts): AnswerRoute[] {
  return [currentRoute(ports), historyRoute(ports), evidenceRoute(ports)]
}

/**
 * Returns the evidence of a quick market: what each price source reported. If the market is contested, the reports are
 * listed, but they do not decide the outcome.
 */
function evidenceOf(found: QuickMarketRecord) {
  const { resolution } = found
  const decision = resolution ?? found.contested
  return {
    quickMarket: quickMarketBody(found),
    chainId: found.chainId,
    contractAddress: checksumAddress(found.contractAddress),
    strike: observationBody(found.strike),
    decidedBy: resolution === null ? null : resolution.byOracle ? 'oracle' : resolution.source,
    start: decision === null ? null : observationBody(decision.start),
    end: decision === null ? null : observationBody(decision.end),
    compared: decision === null ? [] : comparedBody(decision),
    providers: (decision?.sources ?? []).map(providerBody),
    average:
      decision?.average === undefined
        ? null
        : {
            price: decision.average.price,
            observations: decision.average.marks.map(observationBody),
          },
    rule:
      'YES if the end price is at or above the start price, otherwise NO. Both prices are the first reports of ' +
      `one source, at or after ${found.startSec} and ${endSecOf(found)}. Unless more sources moved towards this ` +
      "outcome than against it, the mean of that source's first reports at or after " +
      `${averagedSecs(endSecOf(found), found.intervalSec).join(', ')} replaces the end price. The optimistic ` +
      'oracle decides if the mean gives the same outcome or is incomplete, and at least as many sources ' +
      'contradict this outcome by more than the bound as support it',
    comparison: comparisonOf(found),
    // A contested market is on the chain without an outcome, so it is shown as `created`. Clients of earlier versions
    // do not know the word `contested`.
    onChain: found.onChain === 'contested' ? 'created' : found.onChain,
    createTxHash: found.createTxHash,
    reportTxHash: found.reportTxHash,
  } as const
}

function comparisonOf({ resolution, contested }: QuickMarketRecord): string | null {
  const decision = resolution ?? contested
  if (decision === null) return null
  const name = decision.outcome === YES ? 'YES' : 'NO'
  if (resolution?.byOracle) return `the sources contradict each other; the oracle resolved ${name}`
  if (resolution === null)
    return `by ${decision.source} alone the outcome is ${name}; the sources contradict each other`
  return `${decidingPrice(decision)} ${decision.outcome === YES ? '>=' : '<'} ${decision.start.price}: ${name}`
}

/**
 * Returns the reports of all sources that reported the end price, except the deciding source. Rows of earlier versions
 * have no `sources`. Their reports are in `compared`.
 */
function comparedBody({ source, sources, compared }: QuickResolution) {
  const others =
    sources?.flatMap(({ source: other, start, end }) =>
      other === source || end === null ? [] : [{ start, end }],
    ) ?? compared
  return (others ?? []).map(({ start, end }) => ({
    start: start === null ? null : observationBody(start),
    end: observationBody(end),
  }))
}

function providerBody(marks: SourceMarks) {
  const move = moveBps(marks)
  return {
    source: marks.source,
    start: marks.start === null ? null : observationBody(marks.start),
    end: marks.end === null ? null : observationBody(marks.end),
    direction: move === undefined ? null : DIRECTIONS[1 + Math.sign(move)]!,
    moveBps: move === undefined ? null : Number(move.toFixed(4)),
    counted: marks.counts,
  }
}
