/** The table `markets`: every market that was ever opened, its texts, and whether it still trades. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Category, CloseReason, Matching } from '#domain/market.ts'
import { HexType } from '../engine/hex.ts'

export const MarketEntity = defineEntity({
  name: 'Market',
  tableName: 'markets',
  properties: {
    id: p.type(HexType).$type<MarketId>().fieldName('market_id').length(32).primary(),
    chainId: p.bigint('number'),
    question: p.text(),
    description: p.text(),
    category: p.string().$type<Category>().length(16),
    contractAddress: p.type(HexType).$type<Address>().length(20),
    maker: p.type(HexType).$type<Address>().length(20),
    expiration: p.bigint('number').fieldName('expires_at_sec'),
    createdAt: p.bigint('number').fieldName('created_at_sec'),
    quick: p.boolean(),
    matching: p.string().$type<Matching>().length(16).nullable(),
    openedAtMs: p.bigint('number'),
    closeReason: p.string().$type<CloseReason>().length(16).nullable(),
    closedAtMs: p.bigint('number').nullable(),
    logPartition: p.integer(),
    seq: p.bigint('number').fieldName('last_seq'),
  },
})

export type MarketEntity = InferEntity<typeof MarketEntity>
