/**
 * Stores the progress of the projection. A database belongs to the first log that claims it. Later claims must come
 * from this log, with the same number of partitions as in the first claim.
 */

import { Fault } from '#domain/fault.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { CheckpointEntity } from '../entities/checkpoint.ts'

export type Checkpoint = {
  readonly partition: number
  /** Offset of the last applied record; 0 before the first. */
  readonly offset: number
}

/** Returns the checkpoints of all partitions in order; an empty list before a log has claimed the database. */
export async function checkpoints(database: Database): Promise<Checkpoint[]> {
  const rows = await read(database, (em) =>
    em.find(CheckpointEntity, {}, { orderBy: { partition: 'asc' }, disableIdentityMap: true }),
  )
  return rows.map(({ partition, offset }) => ({ partition, offset }))
}

/**
 * Claims the database for the log and returns its checkpoints. Must be called before the first batch. Rejects if the
 * database belongs to another log or has another number of partitions.
 */
export async function claimLog(database: Database, log: ClaimedLog): Promise<Checkpoint[]> {
  try {
    return await claim(database, log)
  } catch (error) {
    // Another node claimed the database at the same instant. Repeat the claim, which now compares the log with the log
    // of the other node.
    if (!(error instanceof Fault && error.code === 'STORE_CONSTRAINT')) throw error
    return claim(database, log)
  }
}

type ClaimedLog = { readonly logId: string; readonly partitions: number }

function claim(database: Database, log: ClaimedLog): Promise<Checkpoint[]> {
  return transact(database, async (transaction, connection) => {
    const known = await connection.execute<
      { log_partition: number; log_id: string; log_offset: number | string }[]
    >(
      'select log_partition, log_id, log_offset from checkpoints order by log_partition',
      [],
      'all',
      transaction,
    )
    if (known.some((row) => row.log_id !== log.logId)) {
      throw new Fault(
        'STORE_FOREIGN_LOG',
        'the data in the database comes from another event log: use the database and the event ' +
          'log that belong together',
        {
          retryable: false,
        },
      )
    }
    if (known.length > 0) {
      if (known.length !== log.partitions) {
        throw new Fault(
          'STORE_FOREIGN_LOG',
          `the database has checkpoints of ${known.length} partitions, but the event log has ` +
            `${log.partitions} partitions: use the database and the event log that belong together`,
          { retryable: false },
        )
      }
      return known.map((row) => ({
        partition: Number(row.log_partition),
        offset: Number(row.log_offset),
      }))
    }
    const fresh = Array.from({ length: log.partitions }, (_, partition) => ({
      partition,
      offset: 0,
    }))
    for (const { partition, offset } of fresh) {
      await connection.execute(
        'insert into checkpoints (log_partition, log_id, log_offset) values (?, ?, ?)',
        [partition, log.logId, offset],
        'run',
        transaction,
      )
    }
    return fresh
  })
}
