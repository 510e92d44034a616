/**
 * What the snapshot of a market is made of: a head, as JSON, and behind it the chunks of its two books
 * in any order, each behind eight bytes of which the first is the outcome.
 */

import assert from 'node:assert/strict'
import type { Sequence } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import { OUTCOMES } from '#domain/order.ts'
import type { Snapshot } from '#log/event-log.ts'
import type { MarketState } from './state.ts'

const OUTCOME_BYTES = 8

type SnapshotHead = {
  readonly version: 1
  readonly market: Market
  readonly seq: Sequence
  readonly closed: CloseReason | null
  readonly updatedAtMs: number
  readonly unsettled: number
}

export function headChunk({ market, seq, closed, updatedAtMs, unsettled }: MarketState): Buffer {
  const head: SnapshotHead = {
    version: 1,
    market,
    seq,
    closed: closed ?? null,
    updatedAtMs,
    unsettled,
  }
  return Buffer.from(JSON.stringify(head))
}

/** What stands before a chunk of a book. */
export const OUTCOME_MARKS = OUTCOMES.map((outcome) => {
  const mark = Buffer.alloc(OUTCOME_BYTES)
  mark[0] = outcome
  return mark
})

/** The head, and the chunks of each book. */
export function readMarketSnapshot(snapshot: Snapshot): {
  head: SnapshotHead
  books: [Uint8Array[], Uint8Array[]]
} {
  let head: SnapshotHead | undefined
  const books: [Uint8Array[], Uint8Array[]] = [[], []]
  for (const chunk of snapshot.chunks) {
    if (head === undefined) {
      head = JSON.parse(chunk.toString('utf8')) as SnapshotHead
      assert.equal(head.version, 1, 'a known version of a market snapshot')
    } else {
      const outcome = chunk[0]
      assert(outcome === 0 || outcome === 1)
      books[outcome].push(chunk.subarray(OUTCOME_BYTES))
    }
  }
  assert(head !== undefined)
  return { head, books }
}
