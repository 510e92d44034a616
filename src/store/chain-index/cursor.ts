/**
 * Stores the cursor of a chain, which is the last indexed block, and the known hashes of recent blocks. The cursor
 * moves over a range of blocks only if it is at the block before the range. So neither a second writer nor a retry
 * applies a range twice.
 */

import type { BlockMark } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { CHAIN_MARKS_MAX } from '#domain/limits.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { type Statements, statements } from '../engine/statements.ts'

type ChainClaim = {
  readonly chainId: number
  /** Addresses of the exchange's contracts as one string. A claim with other contracts than the stored ones fails. */
  readonly deployment: string
  readonly startBlock: number
  /** The block before the first block to read. */
  readonly anchor: BlockMark
  readonly atMs: number
}

/** Last indexed block, and the newest blocks with known hashes, newest first. */
export type ChainProgress = { readonly indexed: BlockMark; readonly marks: readonly BlockMark[] }

/** Creates the cursor of a chain, or returns the existing one. */
export async function claimChain(database: Database, claim: ChainClaim): Promise<ChainProgress> {
  const { chainId, deployment, anchor } = claim
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const known = await sql.all<{ deployment: string } & CursorRow>(
      'select deployment, indexed_block, indexed_hash from chain_cursors where chain_id = ?',
      [chainId],
    )
    if (known[0] === undefined) {
      await sql.insert('chain_cursors', [
        {
          chain_id: chainId,
          deployment,
          start_block: claim.startBlock,
          indexed_block: anchor.number,
          indexed_hash: bytesOf(anchor.hash),
          updated_at_ms: claim.atMs,
        },
      ])
      await insertMarks(sql, chainId, [anchor])
      return { indexed: anchor, marks: [anchor] }
    }
    if (known[0].deployment !== deployment) {
      throw new Fault(
        'STORE_FOREIGN_CHAIN',
        `the database contains data of other contracts on chain ${chainId} than those in the ` +
          'settings: correct the contracts in the settings, or use another database',
        { retryable: false },
      )
    }
    const marks = (
      await sql.all<{
        block_number: number | string
        block_hash: Uint8Array
        at_sec: number | string
      }>(
        `select block_number, block_hash, at_sec from chain_blocks where chain_id = ?
          order by block_number desc limit ${CHAIN_MARKS_MAX}`,
        [chainId],
      )
    ).map((row) => ({
      number: Number(row.block_number),
      hash: hexOf(row.block_hash),
      atSec: Number(row.at_sec),
    }))
    const indexed = marks[0]
    if (indexed === undefined || indexed.number !== Number(known[0].indexed_block)) {
      throw new Fault(
        'STORE_INCONSISTENT',
        `the database has no hash of the last indexed block of chain ${chainId}`,
        {
          retryable: false,
        },
      )
    }
    return { indexed, marks }
  })
}

type CursorRow = { indexed_block: number | string; indexed_hash: Uint8Array }

/** Moves the cursor from one block to another. Returns false if the cursor was already at the second block. */
export async function moveCursor(
  sql: Statements,
  chainId: number,
  { from, to, atMs }: { readonly from: BlockMark; readonly to: BlockMark; readonly atMs: number },
): Promise<boolean> {
  const moved = await sql.run(
    `update chain_cursors set indexed_block = ?, indexed_hash = ?, updated_at_ms = ?
      where chain_id = ? and indexed_block = ? and indexed_hash = ?`,
    [to.number, bytesOf(to.hash), atMs, chainId, from.number, bytesOf(from.hash)],
  )
  if (moved === 1) return true
  const [row] = await sql.all<CursorRow>(
    'select indexed_block, indexed_hash from chain_cursors where chain_id = ?',
    [chainId],
  )
  const stands = row === undefined ? undefined : Number(row.indexed_block)
  if (row !== undefined && stands === to.number && hexOf(row.indexed_hash) === to.hash) return false
  throw new Fault(
    'STORE_CHAIN_MOVED',
    `the last block of chain ${chainId} in the database is ${stands ?? 'none'}, not ` +
      `${from.number}: another process may be indexing the chain into this database`,
    { retryable: false },
  )
}

export async function insertMarks(
  sql: Statements,
  chainId: number,
  marks: readonly BlockMark[],
): Promise<void> {
  await sql.insert(
    'chain_blocks',
    marks.map(({ number, hash, atSec }) => ({
      chain_id: chainId,
      block_number: number,
      block_hash: bytesOf(hash),
      at_sec: atSec,
    })),
  )
}
