/** A quick market: its asset's live price, its end, and the one that follows it. */

import {
  computed,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from '@preact/signals'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import { config, reader } from '../state/exchange.ts'
import { onQuickMarket, quickAssets } from '../state/quick-markets.ts'
import type { MarketModel } from './market-model.ts'

export type QuickModel = {
  /** Undefined until it is found. */
  readonly market: Signal<QuickMarket | undefined>
  /** The running one of the same asset, where that is another. */
  readonly next: ReadonlySignal<QuickMarket | undefined>
  readonly price: ReadonlySignal<number | undefined>
  start(): () => void
}

export function createQuick(model: MarketModel): QuickModel {
  const market = signal<QuickMarket | undefined>(undefined)
  // The page follows all assets.
  const asset = computed(() => quickAssets.value.find((one) => one.asset === market.value?.asset))
  const next = computed(() => {
    const running = asset.value?.market
    return running?.marketId === model.marketId || running?.resolved ? undefined : running
  })
  const price = computed(() => asset.value?.price)

  function heard(told: QuickMarket): void {
    if (told.marketId !== model.marketId) return
    market.value = told
    if (told.resolved) model.refresh()
  }

  /** Which asset it is of, and how it stands. */
  async function find(assets: readonly string[]): Promise<void> {
    for (const name of assets) {
      const [active, past] = await Promise.all([
        reader.quickMarkets.active(name).catch(() => undefined),
        reader.quickMarkets.history(name).catch(() => []),
      ])
      const all = active === undefined ? past : [active.quickMarket, ...past]
      const found = all.find(({ marketId }) => marketId === model.marketId)
      if (found === undefined) continue
      market.value = found
      return
    }
  }

  return {
    market,
    next,
    price,
    start() {
      const assets = computed(() => config.value?.quickMarkets?.assets.join() ?? '')
      /** It is read when it is known to be one, and again when it has ended otherwise than by a message. */
      const status = computed(() =>
        model.market.value?.quick ? model.market.value.status : undefined,
      )
      const stops = [
        onQuickMarket(heard),
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
