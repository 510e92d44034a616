/** The table `api_keys`: public keys and their addresses. It contains no private key. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'

export const ApiKeyEntity = defineEntity({
  name: 'ApiKey',
  tableName: 'api_keys',
  properties: {
    id: p.string().length(64).fieldName('key_id').primary(),
    address: p.string().length(42),
    name: p.string().length(100),
    publicKey: p.string().length(64),
    createdAtMs: p.bigint('number'),
    expiresAtSec: p.bigint('number').nullable(),
    revokedAtMs: p.bigint('number').nullable(),
  },
})

export type ApiKeyEntity = InferEntity<typeof ApiKeyEntity>
