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
  /** Time at which this process opened or loaded the transaction. */
  openSinceMs: number
  /** Time at which this process last sent the transaction to a node. */
  broadcastAtMs: number
  /**
   * Time at which the transaction became the first open one. From then on, only the transaction's own fees can delay
   * it. Undefined while another transaction is first.
   */
  firstSinceMs: number | undefined
  receipt: Receipt | undefined
  outcome: TransactionOutcome | undefined
  /**
   * Set while the chain has used the nonce, but no signed form of the transaction has a receipt. Contains the time and
   * the block at which the sender first noticed this.
   */
  missing: { readonly sinceMs: number; readonly block: number } | undefined
  abandoned: boolean
  underpriced: boolean
  /** True if the node's last answer means that the node will never accept the newest signed form. */
  refused: boolean
  /**
   * True if a reorg reopened the transaction after its end was acknowledged, and the journal does not record the
   * reopening yet.
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
