/** State of a quick market's view: the asset's live price, the market's end, and the next market of the asset. */

import {
  batch,
  computed,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from '@preact/signals'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import { nowSec } from '../state/clock.ts'
import { config, onReconnect, reader } from '../state/exchange.ts'
import { onQuickMarket, quickAssets } from '../state/quick-markets.ts'
import { type AssetPoint, withPrice } from './asset-series.ts'
import type { MarketModel } from './market-model.ts'

/** Maximum number of quick markets that the exchange lists. */
const LISTED_MAX = 100

export type QuickModel = {
  /** The quick market; undefined until it is found. */
  readonly market: Signal<QuickMarket | undefined>
  /** The quick market of the asset that runs now, if it is not the market of this view; otherwise undefined. */
  readonly next: ReadonlySignal<QuickMarket | undefined>
  readonly price: ReadonlySignal<number | undefined>
  /** Prices of the asset since the start of the market, oldest first. */
  readonly course: Signal<readonly AssetPoint[]>
  /** The asset's markets that have ended, newest first. */
  readonly past: ReadonlySignal<readonly QuickMarket[]>
  start(): () => void
}

export function createQuick(model: MarketModel): QuickModel {
  const market = signal<QuickMarket | undefined>(undefined)
  // The page subscribes to all assets, so the asset of this market is among them.
  const asset = computed(() => quickAssets.value.find((one) => one.asset === market.value?.asset))
  const next = computed(() => {
    const running = asset.value?.market
    return running?.marketId === model.marketId || running?.resolved ? undefined : running
  })
  const price = computed(() => asset.value?.price)
  const course = signal<readonly AssetPoint[]>([])
  const listed = signal<readonly QuickMarket[]>([])
  const past = computed(() =>
    listed.value.filter((one) => one.resolved || nowSec.value >= one.endTime),
  )

  function received(update: QuickMarket): void {
    if (update.asset === market.value?.asset) listed.value = withMarket(listed.value, update)
    if (update.marketId !== model.marketId) return
    market.value = update
    if (update.resolved) model.refresh()
  }

  /** Finds this view's quick market among the markets of all assets, and reads its prices. */
  async function find(assets: readonly string[]): Promise<void> {
    for (const name of assets) {
      const [active, past] = await Promise.all([
        reader.quickMarkets.active(name).catch(() => undefined),
        reader.quickMarkets.history(name).catch(() => []),
      ])
      const all = active === undefined ? past : [active.quickMarket, ...past]
      const found = all.find(({ marketId }) => marketId === model.marketId)
      if (found === undefined) continue
      batch(() => {
        market.value = found
        listed.value = past
      })
      await readCourse(found)
      return
    }
  }

  /**
   * Reads the prices since the start of the market. Prices that arrive from the stream during the read are newer and
   * are kept.
   */
  async function readCourse({ asset: name, startTime, endTime }: QuickMarket): Promise<void> {
    const read = await reader.prices.history(name).catch(() => [])
    const points = read
      .filter(({ timestamp }) => timestamp >= startTime && timestamp <= endTime)
      .map(({ timestamp, price: at }) => ({ sec: timestamp, price: at }))
    course.value = course.value.reduce(withPrice, points as readonly AssetPoint[])
  }

  function followPrice(): void {
    const at = price.value
    const running = market.value
    const sec = nowSec.value
    if (at === undefined || running === undefined || sec > running.endTime) return
    course.value = withPrice(
      untracked(() => course.value),
      { sec, price: at },
    )
  }

  return {
    market,
    next,
    price,
    course,
    past,
    start() {
      const assets = computed(() => config.value?.quickMarkets?.assets.join() ?? '')
      /**
       * Status of this view's market; undefined if it is not a quick market. When the status changes, the quick market
       * is read again, because the stream's message about the end of the market may have been lost.
       */
      const status = computed(() =>
        model.market.value?.quick ? model.market.value.status : undefined,
      )
      const stops = [
        onQuickMarket(received),
        effect(followPrice),
        onReconnect(() => {
          if (market.peek() !== undefined) void readCourse(market.peek()!)
        }),
        effect(() => {
          const names = assets.value
          if (names === '' || status.value === undefined) return
          if (untracked(() => market.value?.resolved) !== true) void find(names.split(','))
        }),
      ]
      return () => {
        for (const stop of stops) stop()
      }
    },
  }
}

/** Replaces a market in the list by its newer state, or adds the market at the front. */
function withMarket(all: readonly QuickMarket[], one: QuickMarket): readonly QuickMarket[] {
  const at = all.findIndex(({ id }) => id === one.id)
  return at === -1 ? [one, ...all].slice(0, LISTED_MAX) : all.with(at, one)
}
