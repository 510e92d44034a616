/** Messages between the prices thread and the fronts. */
import type { PriceSource } from '#domain/asset-price.ts'
import type { QuickMarket } from '#domain/quick-market.ts'
import type { PriceRecord } from '#store/writes/prices.ts'

/** A price that left. */
export type PublishedPrice = PriceRecord

/** What is known of one asset, for a reader that has just come. */
export type AssetPrices = {
  readonly asset: string
  readonly speaker: PriceSource | undefined
  /** Why no source speaks, if so. */
  readonly why: string
  readonly latest: PublishedPrice | undefined
  /** One a second, the earliest first. */
  readonly history: readonly PublishedPrice[]
}

/** What the thread of prices and quick markets tells the fronts; `Load` is what a front asks first. */
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
