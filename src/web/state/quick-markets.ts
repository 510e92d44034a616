/** The current quick market of each asset, and the asset's live price. */

import { computed, effect, signal, untracked } from '@preact/signals'
import type { QuickMarket } from '#protocol/shapes/prices.ts'
import type { PriceMessage, QuickMarketMessage } from '#protocol/shapes/stream.ts'
import { config, stream } from './exchange.ts'

export type QuickAsset = {
  readonly asset: string
  readonly market: QuickMarket | undefined
  /** Price of the asset, with eight implied decimals like the strike; undefined until it is known. */
  readonly price: number | undefined
}

/** Time between two updates of a price on the page; prices arrive many times a second. */
const SHOWN_MS = 250

const assets = signal<ReadonlyMap<string, QuickAsset>>(new Map())

export const quickAssets = computed(() => [...assets.value.values()])

function change(asset: string, part: Partial<QuickAsset>): void {
  const before = assets.value.get(asset) ?? { asset, market: undefined, price: undefined }
  assets.value = new Map(assets.value).set(asset, { ...before, ...part })
}

const receivedPrices = new Map<string, number>()
let isWaiting = false

function showPrices(): void {
  isWaiting = false
  for (const [asset, price] of receivedPrices) change(asset, { price })
  receivedPrices.clear()
}

function receivePrice(asset: string, message: PriceMessage): void {
  const price = message.type === 'price' ? message.price : message.last?.price
  if (price === undefined) return
  receivedPrices.set(asset, price)
  if (isWaiting) return
  isWaiting = true
  setTimeout(showPrices, SHOWN_MS)
}

/**
 * Returns the market to show for an asset after a message. `shown` is the market that the page shows now. If the
 * message reports the resolution of another market, `shown` is returned.
 */
export function shownAfter(
  shown: QuickMarket | undefined,
  { quickMarket }: QuickMarketMessage,
): QuickMarket | undefined {
  if (quickMarket === null) return undefined
  if (quickMarket.resolved && quickMarket.marketId !== shown?.marketId) return shown
  return quickMarket
}

const listeners = new Set<(market: QuickMarket) => void>()

/**
 * Calls the listener for every quick market that opens or is resolved. All listeners share one subscription per asset.
 * Returns a function that removes the listener.
 */
export function onQuickMarket(listener: (market: QuickMarket) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function receiveMarket(asset: string, message: QuickMarketMessage): void {
  const opened = message.quickMarket
  if (opened !== null) for (const listener of listeners) listener(opened)
  change(asset, { market: shownAfter(assets.value.get(asset)?.market, message) })
}

export function followQuickMarkets(): void {
  const names = computed(() => config.value?.quickMarkets?.assets.join() ?? '')
  effect(() => {
    if (names.value === '') return
    const listed = names.value.split(',')
    untracked(() => {
      const subscriptions = listed.flatMap((asset) => [
        stream().quickMarket(asset, (message) => receiveMarket(asset, message)),
        stream().price(asset, (message) => receivePrice(asset, message)),
      ])
      // If the subscriptions of an asset are rejected, the asset has no data and is not shown.
      for (const { ready } of subscriptions) ready.catch(() => undefined)
    })
  })
}
