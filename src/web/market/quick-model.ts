/** A quick market: its asset's live price, its end, and the one that follows it. */

import {
  computed,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from '@preact/signals'
import type { ShownQuickMarket } from '#domain/quick-market.ts'
import { config, reader, stream } from '../state/exchange.ts'
import { quickAssets } from '../state/quick-markets.ts'
import type { MarketModel } from './market-model.ts'

export type QuickModel = {
  /** Undefined until it is found. */
  readonly market: Signal<ShownQuickMarket | undefined>
  /** The running one of the same asset, where that is another. */
  readonly next: Signal<ShownQuickMarket | undefined>
  readonly price: ReadonlySignal<number | undefined>
  start(): () => void
}

export function createQuick(model: MarketModel): QuickModel {
  const market = signal<ShownQuickMarket | undefined>(undefined)
  const next = signal<ShownQuickMarket | undefined>(undefined)
  // The page follows the prices of all assets.
  const price = computed(
    () => quickAssets.value.find(({ asset }) => asset === market.value?.asset)?.price,
  )

  function heard(told: ShownQuickMarket | null): void {
    if (told === null) return
    if (told.marketId === model.marketId) {
      market.value = told
      if (told.resolved) model.refresh()
    } else if (!told.resolved) next.value = told
  }

  /** Which asset it is of, and how it stands. */
  async function find(assets: readonly string[]): Promise<string | undefined> {
    for (const asset of assets) {
      const [active, past] = await Promise.all([
        reader.quickMarkets.active(asset).catch(() => undefined),
        reader.quickMarkets.history(asset).catch(() => []),
      ])
      const all = active === undefined ? past : [active.quickMarket, ...past]
      const found = all.find(({ marketId }) => marketId === model.marketId)
      if (found === undefined) continue
      market.value = found
      if (active !== undefined) heard(active.quickMarket)
      return asset
    }
    return undefined
  }

  function follow(asset: string): () => void {
    const markets = stream().quickMarket(asset, ({ quickMarket }) => heard(quickMarket))
    markets.ready.catch(() => undefined)
    return () => markets.close()
  }

  return {
    market,
    next,
    price,
    start() {
      let isOver = false
      let stopFollowing: (() => void) | undefined
      let isSought = false
      const stop = effect(() => {
        const assets = config.value?.quickMarkets?.assets
        if (assets === undefined || model.market.value?.quick !== true || isSought) return
        isSought = true
        untracked(() => {
          void find(assets).then((asset) => {
            if (asset !== undefined && !isOver) stopFollowing = follow(asset)
          })
        })
      })
      return () => {
        isOver = true
        stop()
        stopFollowing?.()
      }
    },
  }
}
