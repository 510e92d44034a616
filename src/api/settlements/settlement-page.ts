/** The status of a settlement transaction as JSON, written on the thread that reads the database. */

import { readReference } from '#domain/settlement-reference.ts'
import type { TransactionRow, TransactionState } from '#domain/transaction.ts'

const PURPOSE = 'settlement'

const STATUS: Readonly<Record<TransactionState, string>> = {
  open: 'submitted',
  succeeded: 'confirmed',
  reverted: 'failed',
  cancelled: 'failed',
  lost: 'failed',
}

const ENDS: Readonly<Partial<Record<TransactionState, string>>> = {
  reverted: 'the transaction reverted',
  cancelled: 'the transaction was cancelled before it was mined',
  lost: 'another transaction with the same nonce replaced the transaction',
}

/**
 * Returns the status of the settlement transaction with this hash; `headOf` returns the newest known block of a chain.
 */
export async function settlementJson(
  txHash: string,
  row: TransactionRow | undefined,
  headOf: (chainId: number) => Promise<number | undefined>,
): Promise<string> {
  if (row === undefined || row.purpose !== PURPOSE) return '{"found":false}'
  const { blockNumber, finishedAtMs, state } = row
  const head = blockNumber === null ? undefined : await headOf(row.chainId)
  return JSON.stringify({
    found: true,
    txHash: row.txHash === '' ? txHash : row.txHash,
    chainId: row.chainId,
    status: STATUS[state],
    blockNumber,
    // The newest known block (`head`) may be older than the transaction's block. A mined transaction has at least one
    // confirmation, so the number is raised to 1.
    confirmations: blockNumber === null ? 0 : Math.max(1, (head ?? blockNumber) - blockNumber + 1),
    submittedAt: Math.floor(row.signedAtMs / 1_000),
    confirmedAt: finishedAtMs === null ? null : Math.floor(finishedAtMs / 1_000),
    trades: readReference(row.reference).tradeIds,
    error: ENDS[state] ?? (state === 'open' ? row.error : ''),
  })
}
