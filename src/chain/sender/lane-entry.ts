/** What a lane knows of one transaction beside its row in the journal. */

import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import type { Fees } from './fees.ts'
import type { Receipt } from './sender.ts'

export const NEVER = Number.NEGATIVE_INFINITY

export type Entry = {
  row: TransactionRow
  /** Since when this process has had it open. */
  openSinceMs: number
  /** When it was last handed to a node by this process. */
  broadcastAtMs: number
  /** Since when nothing but its own fees can keep it from being mined; undefined while others can. */
  firstSinceMs: number | undefined
  receipt: Receipt | undefined
  outcome: TransactionOutcome | undefined
  /** Since when its nonce has been used up without a receipt of ours. */
  missing: { readonly sinceMs: number; readonly block: number } | undefined
  abandoned: boolean
  underpriced: boolean
  /** A node will never take its newest form, as it said when it was last handed that. */
  refused: boolean
  /** A reorg took it back after its end was acknowledged, and the journal does not say so yet. */
  reopened: boolean
}

export function newEntry(row: TransactionRow, nowMs: number): Entry {
  return {
    row,
    openSinceMs: nowMs,
    broadcastAtMs: NEVER,
    firstSinceMs: undefined,
    receipt: undefined,
    outcome: undefined,
    missing: undefined,
    abandoned: false,
    underpriced: false,
    refused: false,
    reopened: false,
  }
}

/** Whether its newest form does nothing. */
export function isBlank({ row }: Entry): boolean {
  const newest = row.hashes.at(-1)
  return newest !== undefined && row.blanks.includes(newest)
}

/** What its newest form offers. */
export function offeredBy({ maxFeePerGas, maxPriorityFeePerGas }: TransactionRow): Fees {
  return {
    maxFeePerGas: BigInt(maxFeePerGas),
    maxPriorityFeePerGas: BigInt(maxPriorityFeePerGas),
  }
}

export function minedRow({
  blockNumber,
  blockHash,
}: TransactionRow): { blockNumber: number; blockHash: string } | undefined {
  return blockNumber === null ? undefined : { blockNumber, blockHash }
}
