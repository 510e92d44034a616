/** Checks of prices, quick markets, and the price stream by server-sent events. */

import { EventStreamReader } from '#domain/event-stream.ts'
import type { Check } from './check.ts'
import { demand, demandEqual, Skipped } from './mismatch.ts'
import { demandRefusal } from './service-checks.ts'
import { BOOL, demandShape, INTEGER, LIST, NATURAL, NUMBER, TEXT } from './shape.ts'
import type { World } from './world.ts'

const FIRST_EVENT_MS = 15_000
/** Smallest number that is read as a time in milliseconds; a smaller number is a time in seconds. */
const MILLISECONDS = 100_000_000_000
const HISTORY_SEC = 20 * 60

async function assetOf(world: World): Promise<string> {
  const [asset] = (await world.config()).quickMarkets?.assets ?? []
  if (asset !== undefined) return asset
  throw new Skipped('the server has no prices')
}

export const PRICE_CHECKS: readonly Check[] = [
  {
    id: 'prices.latest',
    says: 'GET /quick-markets/{asset}/price returns the latest price and its source',
    async run(world) {
      const { status, body } = await world.ask(`/quick-markets/${await assetOf(world)}/price`)
      if (status === 503) throw new Skipped('no provider has delivered a price yet')
      demandEqual('status', status, 200)
      const shape = { price: INTEGER, priceUSD: NUMBER, timestamp: NATURAL, source: TEXT }
      demandShape('the price', body, shape)
    },
  },
  {
    id: 'prices.history',
    says: 'the price history lists the prices of the last 20 minutes, the earliest first',
    async run(world) {
      const { body } = await world.ask(`/quick-markets/${await assetOf(world)}/price-history`)
      demandShape('the history', body, { prices: [{ price: INTEGER, timestamp: NATURAL }] })
      const times = (body as { prices: { timestamp: number }[] }).prices.map(
        (each) => each.timestamp,
      )
      demandEqual(
        'timestamps',
        times,
        [...times].sort((a, b) => a - b),
      )
      const reach = (times.at(-1) ?? 0) - (times[0] ?? 0)
      demand(reach <= HISTORY_SEC + 60, 'prices that cover at most 20 minutes', `${reach} seconds`)
    },
  },
  {
    id: 'prices.unknown',
    says: 'a request for an unknown asset gets 404 ASSET_NOT_FOUND',
    async run({ ask }) {
      const wanted = { status: 404, code: 'ASSET_NOT_FOUND' }
      demandRefusal(await ask('/quick-markets/NOSUCHASSET/price'), wanted)
    },
  },
  {
    id: 'prices.quick-market',
    says: 'the active quick market of an asset and its earlier quick markets can be read',
    async run(world) {
      const asset = await assetOf(world)
      const { body } = await world.ask(`/quick-markets/${asset}`)
      demandShape('the answer', body, { active: BOOL, asset: TEXT })
      const { active, quickMarket } = body as { active: boolean; quickMarket: unknown }
      if (active) {
        demandShape('quickMarket', quickMarket, {
          ...{ id: INTEGER, marketId: TEXT, asset: TEXT, intervalMinutes: NUMBER },
          ...{ startPrice: INTEGER, startTime: NATURAL, endTime: NATURAL },
          ...{ resolved: BOOL, priceSource: TEXT, createdAt: NATURAL },
        })
      } else demandEqual('quickMarket', quickMarket, null)
      const history = await world.ask(`/quick-markets/${asset}/history`)
      demandShape('the history', history.body, { quickMarkets: LIST })
      const { quickMarkets } = history.body as { quickMarkets: unknown[] }
      demand(quickMarkets.length <= 100, 'at most 100 quick markets', quickMarkets.length)
    },
  },
  {
    id: 'prices.stream',
    says: 'the price stream is text/event-stream and sends a price at once',
    async run(world) {
      const path = `/api/v1/quick-markets/${await assetOf(world)}/price-stream`
      const stop = AbortSignal.timeout(FIRST_EVENT_MS)
      const response = await fetch(`${world.url}${path}`, { signal: stop })
      if (response.status === 503) throw new Skipped('no provider has delivered a price yet')
      demandEqual('content-type', response.headers.get('content-type'), 'text/event-stream')
      const reader = new EventStreamReader()
      try {
        for await (const chunk of response.body ?? []) {
          const [event] = reader.take(chunk)
          if (event === undefined) continue
          const message = JSON.parse(event.data) as { timestamp: number }
          const shape = { asset: TEXT, price: INTEGER, priceUSD: NUMBER, timestamp: NATURAL }
          demandShape('the event', message, { ...shape, source: TEXT })
          demand(message.timestamp > MILLISECONDS, 'a Unix time in milliseconds', message.timestamp)
          return
        }
      } catch (error) {
        if (!stop.aborted) throw error
      }
      demand(false, `the first price event within ${FIRST_EVENT_MS} ms`, 'none')
    },
  },
]
