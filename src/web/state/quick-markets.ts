/** The current quick market of each asset, and the asset's live price. */

import { computed, effect, signal, untracked } from '@preact/signals'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import type { PriceMessage, QuickMarketMessage } from '#protocol/shapes/stream.ts'
import { config, stream } from './exchange.ts'

export type QuickAsset = {
  readonly asset: string
  readonly market: QuickMarket | undefined
  /** Eight decimals, like the strike. */
  readonly price: number | undefined
}

/** Prices arrive many times a second; the page shows a few of them. */
const SHOWN_MS = 250

const assets = signal<ReadonlyMap<string, QuickAsset>>(new Map())

export const quickAssets = computed(() => [...assets.value.values()])

function change(asset: string, part: Partial<QuickAsset>): void {
  const before = assets.value.get(asset) ?? { asset, market: undefined, price: undefined }
  assets.value = new Map(assets.value).set(asset, { ...before, ...part })
}

const heardPrices = new Map<string, number>()
let isWaiting = false

function showPrices(): void {
  isWaiting = false
  for (const [asset, price] of heardPrices) change(asset, { price })
  heardPrices.clear()
}

function heardPrice(asset: string, message: PriceMessage): void {
  const price = message.type === 'price' ? message.price : message.last?.price
  if (price === undefined) return
  heardPrices.set(asset, price)
  if (isWaiting) return
  isWaiting = true
  setTimeout(showPrices, SHOWN_MS)
}

/** Returns the market to show after this message: a resolved market is the previous one. */
export function shownAfter(
  shown: QuickMarket | undefined,
  { quickMarket }: QuickMarketMessage,
): QuickMarket | undefined {
  if (quickMarket === null) return undefined
  if (quickMarket.resolved && quickMarket.marketId !== shown?.marketId) return shown
  return quickMarket
}

const listeners = new Set<(market: QuickMarket) => void>()

/** Calls the listener for every quick market that opens or is resolved: the page follows each asset only once. */
export function onQuickMarket(listener: (market: QuickMarket) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function heardMarket(asset: string, message: QuickMarketMessage): void {
  const told = message.quickMarket
  if (told !== null) for (const listener of listeners) listener(told)
  change(asset, { market: shownAfter(assets.value.get(asset)?.market, message) })
}

export function followQuickMarkets(): void {
  const names = computed(() => config.value?.quickMarkets?.assets.join() ?? '')
  effect(() => {
    if (names.value === '') return
    const listed = names.value.split(',')
    untracked(() => {
      const subscriptions = listed.flatMap((asset) => [
        stream().quickMarket(asset, (message) => heardMarket(asset, message)),
        stream().price(asset, (message) => heardPrice(asset, message)),
      ])
      // A rejected asset has no prices, and is not shown.
      for (const { ready } of subscriptions) ready.catch(() => undefined)
    })
  })
}
