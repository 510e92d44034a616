/** The table `asset_prices`: the last price of each second, kept for a limited time. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { PriceSource } from '#domain/price-providers.ts'

export const AssetPriceEntity = defineEntity({
  name: 'AssetPrice',
  tableName: 'asset_prices',
  properties: {
    asset: p.string().length(16).primary(),
    atSec: p.bigint('number').primary(),
    atMs: p.bigint('number').fieldName('observed_at_ms'),
    price: p.bigint('number').fieldName('price_e8'),
    source: p.string().$type<PriceSource>().length(16),
    number: p.bigint('number').fieldName('price_number'),
  },
})

export type AssetPriceEntity = InferEntity<typeof AssetPriceEntity>
