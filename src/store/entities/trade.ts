/**
 * The table `trades`: every fill and its settlement. Its key is market, sequence number and fill index, so that a
 * market's trades are stored in the order in which they happened.
 */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import type { FaultySide, FillKind, TradeStatus } from '#domain/trade.ts'
import { HexType } from '../engine/hex.ts'

export const TradeEntity = defineEntity({
  name: 'Trade',
  tableName: 'trades',
  properties: {
    marketId: p.type(HexType).$type<MarketId>().length(32).primary(),
    seq: p.bigint('number').primary(),
    fillIndex: p.integer().primary(),
    chainId: p.bigint('number'),
    outcome: p.integer().$type<Outcome>(),
    price: p.integer().$type<Price>().fieldName('price_e6'),
    size: p.bigint('number').$type<Shares>().fieldName('size_e6'),
    cost: p.bigint('number').fieldName('cost_e6'),
    buyer: p.type(HexType).$type<Address>().length(20),
    seller: p.type(HexType).$type<Address>().length(20),
    buyOrderHash: p.type(HexType).$type<OrderHash>().length(32),
    sellOrderHash: p.type(HexType).$type<OrderHash>().length(32),
    takerSide: p.integer().$type<Side>(),
    matchedAtMs: p.bigint('number'),
    status: p.string().$type<TradeStatus>().length(16),
    /** 1 while the trade is matched, submitted or reverted; derived from the status, for an index. */
    pending: p.integer().$type<0 | 1>(),
    txHash: p.type(HexType).length(32).nullable(),
    reason: p.string().length(1024).nullable(),
    attempts: p.integer(),
    failedAtMs: p.bigint('number').nullable(),
    updatedAtMs: p.bigint('number'),
    kind: p.string().$type<FillKind>().length(16).nullable(),
    /** The side at fault of a failed trade. */
    fault: p.string().$type<Exclude<FaultySide, 'none'>>().length(16).nullable(),
  },
})

export type TradeEntity = InferEntity<typeof TradeEntity>
