/**
 * Writes waiting batches of different partitions in as few transactions as possible. So the batches share the
 * fixed cost of a transaction: a sync, and the index pages that all batches change. Used for SQLite, which
 * has one connection; on a database server, partitions are written in parallel.
 */

import { Fault } from '#domain/fault.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { Database } from '../engine/database.ts'
import { type Projected, projectTogether } from './project.ts'
import type { ProjectionBatch } from './rows.ts'

type Waiting = {
  readonly batch: ProjectionBatch
  readonly resolve: (projected: Projected) => void
  readonly reject: (error: unknown) => void
}

/**
 * Makes a function that writes a batch together with the other waiting batches. A caller waits for its batch before it
 * passes the next batch of the same partition, so at most one batch per partition waits.
 */
export function makeTurnProjector(
  database: Database,
): (batch: ProjectionBatch) => Promise<Projected> {
  const waiting: Waiting[] = []
  let writing = false

  async function writeWaiting(): Promise<void> {
    while (waiting.length > 0) {
      await writeSome(waiting.splice(0, countWithinRows(waiting)))
    }
    writing = false
  }

  /**
   * Writes some batches in one transaction. If the database refuses this transaction, writes each batch in its own
   * transaction, so that only the bad batch fails.
   */
  async function writeSome(some: readonly Waiting[]): Promise<void> {
    try {
      const projected = await projectTogether(
        database,
        some.map(({ batch }) => batch),
      )
      for (const [at, each] of projected.entries()) some[at]?.resolve(each)
    } catch (error) {
      const isUseless = some.length === 1 || (error instanceof Fault && error.retryable)
      if (isUseless) for (const { reject } of some) reject(error)
      else for (const one of some) await writeSome([one])
    }
  }

  return (batch) =>
    new Promise((resolve, reject) => {
      waiting.push({ batch, resolve, reject })
      if (writing) return
      writing = true
      queueMicrotask(writeWaiting)
    })
}

/** Returns how many batches fit into one transaction, at least one. */
function countWithinRows(waiting: readonly Waiting[]): number {
  let rows = 0
  for (const [at, { batch }] of waiting.entries()) {
    rows += rowsOf(batch)
    if (rows > PROJECTION_ROWS_MAX) return Math.max(1, at)
  }
  return waiting.length
}

function rowsOf(batch: ProjectionBatch): number {
  const { markets, marketChanges, orders, orderChanges, trades, tradeChanges } = batch
  const lists = [markets, marketChanges, orders, orderChanges, trades, tradeChanges]
  return lists.reduce((rows, list) => rows + list.length, 0)
}
