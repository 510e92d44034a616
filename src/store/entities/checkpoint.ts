/** The table `checkpoints`: the last projected offset of each partition of the event log. */

import { defineEntity, type InferEntity, p } from '@mikro-orm/core'

export const CheckpointEntity = defineEntity({
  name: 'Checkpoint',
  tableName: 'checkpoints',
  properties: {
    partition: p.integer().fieldName('log_partition').primary(),
    logId: p.string().length(64),
    offset: p.bigint('number').fieldName('log_offset'),
  },
})

export type CheckpointEntity = InferEntity<typeof CheckpointEntity>
