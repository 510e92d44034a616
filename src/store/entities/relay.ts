/** The table `relays`: operations that the relayer sends for users, keyed by the hash that the user signed. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Address } from '#domain/ids.ts'
import type { RelayKey, RelayKind, RelayStatus } from '#domain/relay.ts'
import { HexType } from '../engine/hex.ts'

export const RelayEntity = defineEntity({
  name: 'Relay',
  tableName: 'relays',
  properties: {
    key: p.type(HexType).$type<RelayKey>().length(32).fieldName('relay_key').primary(),
    chainId: p.bigint('number'),
    kind: p.string().$type<RelayKind>().length(32),
    owner: p.type(HexType).$type<Address>().length(20),
    status: p.string().$type<RelayStatus>().length(16),
    /** 1 until the operation has succeeded or failed; derived from the status, for an index. */
    unfinished: p.integer().$type<0 | 1>(),
    attempt: p.integer(),
    txHash: p.type(HexType).length(32).nullable(),
    gas: p.bigint('number'),
    reason: p.string().length(1024).nullable(),
    openedAtMs: p.bigint('number'),
    updatedAtMs: p.bigint('number'),
  },
})

export type RelayEntity = InferEntity<typeof RelayEntity>
