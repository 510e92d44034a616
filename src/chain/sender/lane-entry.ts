/**
 * State of one transaction in a lane (one key on one chain): its row in the journal, and the state that only this
 * process needs.
 */

import type { TransactionOutcome, TransactionRow } from '#domain/transaction.ts'
import type { Fees } from './fees.ts'
import type { Receipt } from './sender.ts'

export const NEVER = Number.NEGATIVE_INFINITY

export type Entry = {
  row: TransactionRow
  /** Time at which this process signed the transaction, loaded it from the journal, or reopened it after a reorg. */
  openSinceMs: number
  /** Time at which this process last sent the transaction to a node. */
  broadcastAtMs: number
  /**
   * Time at which the transaction became the first open one of its lane. From then on, no earlier transaction delays
   * it, only its own fees. Undefined while an earlier transaction is open.
   */
  firstSinceMs: number | undefined
  receipt: Receipt | undefined
  outcome: TransactionOutcome | undefined
  /**
   * Set while the chain has used the nonce, but no signed form of the transaction has a receipt. Contains the time and
   * the newest block when the sender first saw this state.
   */
  missing: { readonly sinceMs: number; readonly block: number } | undefined
  abandoned: boolean
  underpriced: boolean
  /** True if the node's last answer means that the node will never accept the newest signed form. */
  refused: boolean
  /**
   * True while the journal still has the transaction as ended, although a reorg has reopened it. The next poll stores
   * the reopened row.
   */
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

/** Returns whether the transaction's newest signed form is blank, that is, only uses up the nonce. */
export function isBlank({ row }: Entry): boolean {
  const newest = row.hashes.at(-1)
  return newest !== undefined && row.blanks.includes(newest)
}

/** Returns the fees of the transaction's newest signed form. */
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
