/**
 * The table `orders`: every order that was ever accepted, with the nine signed fields, the data that settlement needs,
 * and its current state.
 */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import { HexType } from '../engine/hex.ts'
import type { OrderStatus } from '../projection/rows.ts'

export const OrderEntity = defineEntity({
  name: 'Order',
  tableName: 'orders',
  properties: {
    orderHash: p.type(HexType).$type<OrderHash>().length(32).primary(),
    marketId: p.type(HexType).$type<MarketId>().length(32),
    chainId: p.bigint('number'),
    trader: p.type(HexType).$type<Address>().length(20),
    side: p.integer().$type<Side>(),
    outcome: p.integer().$type<Outcome>(),
    price: p.integer().$type<Price>().fieldName('price_e6'),
    size: p.bigint('number').$type<Shares>().fieldName('size_e6'),
    nonce: p.string().$type<Uint64>().length(20),
    expiration: p.string().$type<Uint64>().length(20),
    expiresAtSec: p.bigint('number'),
    makerFeeRecipient: p.type(HexType).$type<Address>().length(20),
    signature: p.type(HexType).length(65),
    permit: p.text().nullable(),
    status: p.string().$type<OrderStatus>().length(16),
    remaining: p.bigint('number').fieldName('remaining_e6'),
    matches: p.integer(),
    placedAtMs: p.bigint('number'),
    updatedAtMs: p.bigint('number'),
    logPartition: p.integer(),
    seq: p.bigint('number').fieldName('last_seq'),
  },
})

export type OrderEntity = InferEntity<typeof OrderEntity>
