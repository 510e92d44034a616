/**
 * The journal of the exchange's own transactions: one row per key and nonce, with every version that was
 * signed for the nonce. Only the store thread writes rows; the row of a transaction is saved before the
 * transaction is sent.
 */

import type { Address } from '#domain/ids.ts'
import type { TransactionRow, TransactionState } from '#domain/transaction.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { rowsOf } from '../engine/prepared.ts'

/**
 * Inserts the row of a transaction, or replaces a stored row of a lower revision. Repeating the call changes nothing.
 * Returns false if the stored row has a higher revision.
 */
export async function saveTransaction(
  database: Database,
  { row }: { readonly row: TransactionRow },
): Promise<boolean> {
  const key = [row.chainId, row.sender, row.nonce]
  const values = [
    row.revision,
    row.purpose,
    row.reference,
    row.raw,
    JSON.stringify(row.hashes),
    JSON.stringify(row.blanks),
    row.maxFeePerGas,
    row.maxPriorityFeePerGas,
    row.state,
    row.txHash === '' ? null : row.txHash,
    row.blockNumber,
    row.blockHash === '' ? null : row.blockHash,
    row.gasUsed,
    row.error.slice(0, ERROR_CHARS_MAX).toWellFormed(),
    row.signedAtMs,
    row.updatedAtMs,
    row.finishedAtMs,
  ]
  const ignore = database.address.dialect === 'sqlite' ? 'or ignore' : 'ignore'
  return transact(database, async (transaction, connection) => {
    const run = (sql: string, args: readonly unknown[]) =>
      connection.execute(sql, [...args], 'run', transaction)
    const known = await connection.execute<{ revision: number | string }[]>(
      'select revision from transactions where chain_id = ? and sender = ? and nonce = ?',
      key,
      'all',
      transaction,
    )
    const before = known[0] === undefined ? -1 : Number(known[0].revision)
    if (before < 0) {
      const marks = [...values, ...key].map(() => '?').join(', ')
      await run(
        `insert into transactions (${[...CHANGING, 'chain_id', 'sender', 'nonce'].join(', ')})
          values (${marks})`,
        [...values, ...key],
      )
    } else if (before < row.revision) {
      await run(
        `update transactions set ${CHANGING.map((column) => `${column} = ?`).join(', ')}
          where chain_id = ? and sender = ? and nonce = ?`,
        [...values, ...key],
      )
    }
    for (const hash of row.hashes) {
      await run(
        `insert ${ignore} into transaction_hashes (tx_hash, chain_id, sender, nonce)
          values (?, ?, ?, ?)`,
        [hash, ...key],
      )
    }
    return before <= row.revision
  })
}

const ERROR_CHARS_MAX = 1_000

const CHANGING = [
  'revision',
  'purpose',
  'reference',
  'raw',
  'hashes',
  'blanks',
  'max_fee_per_gas',
  'max_priority_fee_per_gas',
  'state',
  'tx_hash',
  'block_number',
  'block_hash',
  'gas_used',
  'error',
  'signed_at_ms',
  'updated_at_ms',
  'finished_at_ms',
] as const

type Columns = Record<(typeof CHANGING)[number] | 'chain_id' | 'sender' | 'nonce', unknown>

export type JournalFilter = {
  readonly chainId: number
  readonly sender: Address
  readonly watchBlocks: number
}

/**
 * Returns a key's open transactions, its transactions in the newest blocks, and its highest used nonce (-1 if none).
 * The newest blocks end with the block of the key's newest mined transaction, and begin `watchBlocks` blocks earlier.
 */
export async function journalOf(
  database: Database,
  { chainId, sender, watchBlocks }: JournalFilter,
): Promise<{ rows: TransactionRow[]; lastNonce: number }> {
  return read(database, async (em) => {
    const connection = em.getConnection()
    const bounds = await connection.execute<{ nonce: unknown; block: unknown }[]>(
      `select max(nonce) as nonce, max(block_number) as block from transactions
        where chain_id = ? and sender = ?`,
      [chainId, sender],
    )
    const lastNonce = bounds[0]?.nonce == null ? -1 : Number(bounds[0].nonce)
    const sinceBlock = Number(bounds[0]?.block ?? 0) - watchBlocks
    const found = await connection.execute<Columns[]>(
      `select * from transactions where chain_id = ? and sender = ?
        and (state = 'open' or block_number >= ?) order by nonce`,
      [chainId, sender, sinceBlock],
    )
    return { rows: found.map(transactionRow), lastNonce }
  })
}

/** Returns the transaction with this hash. Each signed version of a transaction has its own hash. */
export async function transactionByHash(
  database: Database,
  { txHash }: { readonly txHash: string },
): Promise<TransactionRow | undefined> {
  const found = await rowsOf<Columns>(
    database,
    `select t.* from transaction_hashes h join transactions t
      on t.chain_id = h.chain_id and t.sender = h.sender and t.nonce = h.nonce
      where h.tx_hash = ?`,
    [txHash],
  )
  return found[0] === undefined ? undefined : transactionRow(found[0])
}

function transactionRow(row: Columns): TransactionRow {
  const orNull = (value: unknown) => (value == null ? null : Number(value))
  return {
    chainId: Number(row.chain_id),
    sender: row.sender as Address,
    nonce: Number(row.nonce),
    revision: Number(row.revision),
    purpose: row.purpose as string,
    reference: row.reference as string,
    raw: row.raw as string,
    hashes: JSON.parse(row.hashes as string) as string[],
    blanks: JSON.parse(row.blanks as string) as string[],
    maxFeePerGas: row.max_fee_per_gas as string,
    maxPriorityFeePerGas: row.max_priority_fee_per_gas as string,
    state: row.state as TransactionState,
    txHash: (row.tx_hash as string | null) ?? '',
    blockNumber: orNull(row.block_number),
    blockHash: (row.block_hash as string | null) ?? '',
    gasUsed: orNull(row.gas_used),
    error: row.error as string,
    signedAtMs: Number(row.signed_at_ms),
    updatedAtMs: Number(row.updated_at_ms),
    finishedAtMs: orNull(row.finished_at_ms),
  }
}
