/** Messages between the prices thread and the fronts. */
import type { PriceSource } from '#domain/price-providers.ts'
import type { QuickMarket } from '#domain/quick-market.ts'
import type { PriceRecord } from '#store/writes/prices.ts'

/** A price that the prices thread has published. */
export type PublishedPrice = PriceRecord

/** Current state of one asset's prices, for a front that begins to follow them. */
export type AssetPrices = {
  readonly asset: string
  readonly speaker: PriceSource | undefined
  /** Reason why no source delivers prices; '' if a source delivers prices. */
  readonly why: string
  readonly latest: PublishedPrice | undefined
  /** One price per second, the oldest first. */
  readonly history: readonly PublishedPrice[]
}

/** Messages of the prices thread to the fronts; a front first requests `Load`. */
export type PriceFollowerProtocol = {
  Priced: { takes: { price: PublishedPrice }; answers: undefined }
  SpeakerChanged: {
    takes: { asset: string; source: PriceSource | undefined; why: string }
    answers: undefined
  }
  QuickMarketOpened: { takes: { quickMarket: QuickMarket; atMs: number }; answers: undefined }
  QuickMarketResolved: { takes: { quickMarket: QuickMarket; atMs: number }; answers: undefined }
}

export type PriceLoadProtocol = {
  Load: {
    takes: object
    answers: { assets: readonly AssetPrices[]; active: readonly QuickMarket[] }
  }
}
