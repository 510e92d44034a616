/** The table `claims`: redemptions through the relayer, one row per market. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address, MarketId } from '#domain/ids.ts'
import type { ClaimStatus, RelayKey } from '#domain/relay.ts'
import { HexType } from '../engine/hex.ts'

export const ClaimEntity = defineEntity({
  name: 'Claim',
  tableName: 'claims',
  properties: {
    key: p.type(HexType).$type<RelayKey>().length(32).fieldName('relay_key').primary(),
    item: p.integer().primary(),
    chainId: p.bigint('number'),
    userAddress: p.type(HexType).$type<Address>().length(20),
    marketId: p.type(HexType).$type<MarketId>().length(32),
    marketAddress: p.type(HexType).$type<Address>().length(20),
    payout: p.bigint('number').fieldName('payout_e6'),
    winningOutcome: p.integer().$type<0 | 1>(),
    status: p.string().$type<ClaimStatus>().length(16),
    txHash: p.type(HexType).length(32).nullable(),
    reason: p.string().length(1024).nullable(),
    submittedAtMs: p.bigint('number'),
    updatedAtMs: p.bigint('number'),
  },
})

export type ClaimEntity = InferEntity<typeof ClaimEntity>
