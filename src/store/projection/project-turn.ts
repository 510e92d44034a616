/**
 * Writes batches that are handed over in one turn, each of another partition, in as few transactions as they fit
 * into. What a transaction costs beside its rows is the same for many as for few: pages of indexes that all of them
 * change, and a sync. For a database with one connection; others write partitions beside each other.
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

/** Whoever hands over a batch of a partition waits for its end before the next: so no more wait than there are. */
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

  /** A refused batch fails alone: then each batch gets its own transaction. */
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
