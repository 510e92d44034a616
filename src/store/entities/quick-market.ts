/** The table `quick_markets`: the terms, the outcome and the on-chain progress of each quick market. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Matching } from '#domain/market.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type { QuickChainStage } from '#domain/quick-market.ts'
import { HexType } from '../engine/hex.ts'

export const QuickMarketEntity = defineEntity({
  name: 'QuickMarket',
  tableName: 'quick_markets',
  properties: {
    id: p.bigint('number').fieldName('quick_id').primary(),
    marketId: p.type(HexType).$type<MarketId>().length(32),
    chainId: p.bigint('number'),
    contractAddress: p.type(HexType).$type<Address>().length(20),
    asset: p.string().length(16),
    startSec: p.bigint('number').fieldName('start_at_sec'),
    intervalSec: p.integer(),
    startPrice: p.bigint('number').fieldName('start_price_e8'),
    source: p.string().$type<PriceSource>().length(16),
    strike: p.text(),
    createdAtMs: p.bigint('number'),
    /** The market's matching rule. Null means `same-outcome`, as in all rows of earlier versions. */
    matching: p.string().$type<Matching>().length(16).nullable(),
    endPrice: p.bigint('number').fieldName('end_price_e8').nullable(),
    outcome: p.integer().$type<0 | 1>().nullable(),
    contested: p.text().nullable(),
    resolution: p.text().nullable(),
    resolvedAtMs: p.bigint('number').nullable(),
    createTxHash: p.type(HexType).length(32).nullable(),
    reportTxHash: p.type(HexType).length(32).nullable(),
    onChain: p.string().$type<QuickChainStage>().length(16).fieldName('chain_stage'),
    /** 1 while the market's outcome is not on chain yet. */
    unfinished: p.integer().$type<0 | 1>(),
  },
})

export type QuickMarketEntity = InferEntity<typeof QuickMarketEntity>
