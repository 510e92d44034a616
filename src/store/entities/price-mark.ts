/**
 * The table `price_marks`: the first price that each source reported at or after a boundary (the start or end of a
 * quick market).
 */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { ObservedVia } from '#domain/asset-price.ts'
import type { PriceSource } from '#domain/price-providers.ts'

export const PriceMarkEntity = defineEntity({
  name: 'PriceMark',
  tableName: 'price_marks',
  properties: {
    boundarySec: p.bigint('number').fieldName('boundary_at_sec').primary(),
    asset: p.string().length(16).primary(),
    source: p.string().$type<PriceSource>().length(16).primary(),
    price: p.bigint('number').fieldName('price_e8'),
    atMs: p.bigint('number').fieldName('observed_at_ms'),
    receivedAtMs: p.bigint('number'),
    via: p.string().$type<ObservedVia>().length(16),
    exact: p.boolean(),
    raw: p.text(),
  },
})

export type PriceMarkEntity = InferEntity<typeof PriceMarkEntity>
