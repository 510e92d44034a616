/**
 * Writes batches that are handed over in one turn, each of another partition, in as few transactions as they fit
 * into. What a transaction costs beside its rows is the same for many as for few: pages of indexes that all of them
 * change, and a sync. For a database with one connection; others write partitions beside each other.
 */

import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { Database } from '../engine/database.ts'
import { type Projected, projectTogether } from './project.ts'
import type { ProjectionBatch } from './rows.ts'

type Waiting = {
  readonly batch: ProjectionBatch
  readonly resolve: (projected: Projected) => void
  readonly reject: (error: unknown) => void
}

/** Whoever hands over a batch of a partition waits for its end before the next: so no more wait than there are. */
export function makeTurnProjector(
  database: Database,
): (batch: ProjectionBatch) => Promise<Projected> {
  const waiting: Waiting[] = []
  let writing = false

  async function writeWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const some = waiting.splice(0, countWithinRows(waiting))
      try {
        const batches = some.map(({ batch }) => batch)
        const projected = await projectTogether(database, batches)
        for (const [at, each] of projected.entries()) some[at]?.resolve(each)
      } catch (error) {
        for (const { reject } of some) reject(error)
      }
    }
    writing = false
  }

  return (batch) =>
    new Promise((resolve, reject) => {
      waiting.push({ batch, resolve, reject })
      if (writing) return
      writing = true
      queueMicrotask(writeWaiting)
    })
}

/** So many of them, at least one, that their rows fit into one transaction. */
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
