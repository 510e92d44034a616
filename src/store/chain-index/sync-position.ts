/**
 * Stores the shares of single positions, which are read from the chain when users request it. The block of such a read
 * may be newer than the indexer's last block. So the result is stored beside the position, and shown instead of the
 * position until the indexer has reached the block (`index-range.ts`). A reorg deletes the result (`rewind-chain.ts`).
 * The position itself does not change, so no movement is counted twice when the indexer reaches the block.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import {
  POSITION_SYNCS_MAX,
  POSITION_SYNCS_PER_HOLDER_MAX,
  POSITION_SYNCS_PER_MARKET_MAX,
} from '#domain/limits.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { type Statements, statements } from '../engine/statements.ts'
import { correct } from './position-fold.ts'
import { overwritePosition, positionsOf } from './positions-write.ts'

type PositionSync = {
  readonly chainId: number
  readonly marketId: MarketId
  readonly holder: Address
  /** Block at which the shares were read. */
  readonly blockNumber: number
  readonly blockHash: string
  /** Decimal text. */
  readonly yesShares: string
  readonly noShares: string
  readonly atMs: number
}

/** The position shown from now on, and its block. */
type SyncedPosition = Amounts & { readonly blockNumber: number; readonly blockHash: string }

type Amounts = {
  readonly yesShares: bigint
  readonly noShares: bigint
  readonly yesCost: bigint
  readonly noCost: bigint
}

const NOTHING: Amounts = { yesShares: 0n, noShares: 0n, yesCost: 0n, noCost: 0n }

/**
 * Returns the position with its shares replaced by the shares read from the chain. If shares are removed,
 * their part of the cost is removed too.
 */
export function overlaid(
  position: Amounts = NOTHING,
  { yesShares, noShares }: Pick<Amounts, 'yesShares' | 'noShares'>,
): Amounts {
  const yes = { shares: position.yesShares, cost: position.yesCost }
  const no = { shares: position.noShares, cost: position.noCost }
  correct(yes, yesShares)
  correct(no, noShares)
  return { yesShares, noShares, yesCost: yes.cost, noCost: no.cost }
}

/**
 * Stores a position's shares that were read from the chain at a block, and returns the position to show. If the indexer
 * has not reached that block, or has another block at that height, the shares are stored beside the position. If that
 * block is the indexer's last block, the position itself is corrected. If the indexer has passed that block, nothing is
 * stored, and the indexed position is returned.
 */
export async function syncPosition(
  database: Database,
  sync: PositionSync,
): Promise<SyncedPosition> {
  const { chainId, marketId, holder, blockNumber, blockHash } = sync
  const shares = [BigInt(sync.yesShares), BigInt(sync.noShares)] as const
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const indexed = await indexedPast(sql, sync)
    if (indexed === undefined) {
      await overlay(sql, sync)
      const position = await amountsOf(sql, marketId, holder)
      const shown = overlaid(position, { yesShares: shares[0], noShares: shares[1] })
      return { ...shown, blockNumber, blockHash }
    }
    if (indexed.blockHash === blockHash) {
      await overwritePosition(sql, { chainId, marketId, holder, blockNumber }, shares)
    }
    return { ...(await amountsOf(sql, marketId, holder)), ...indexed }
  })
}

/**
 * Returns the last indexed block. Returns undefined if the indexer has not reached the given block, or has stored
 * another hash for that block.
 */
async function indexedPast(
  sql: Statements,
  { chainId, blockNumber, blockHash }: PositionSync,
): Promise<{ blockNumber: number; blockHash: string } | undefined> {
  const [cursor] = await sql.all<{ indexed_block: number | string; indexed_hash: Uint8Array }>(
    'select indexed_block, indexed_hash from chain_cursors where chain_id = ?',
    [chainId],
  )
  if (cursor === undefined || Number(cursor.indexed_block) < blockNumber) return undefined
  const [seen] = await sql.all<{ block_hash: Uint8Array }>(
    'select block_hash from chain_blocks where chain_id = ? and block_number = ?',
    [chainId, blockNumber],
  )
  if (seen !== undefined && hexOf(seen.block_hash) !== blockHash) return undefined
  return { blockNumber: Number(cursor.indexed_block), blockHash: hexOf(cursor.indexed_hash) }
}

async function amountsOf(sql: Statements, marketId: MarketId, holder: Address): Promise<Amounts> {
  const [position] = (await positionsOf(sql, [[marketId, holder]])).values()
  if (position === undefined) return NOTHING
  const [yes, no] = position.sides
  return { yesShares: yes.shares, noShares: no.shares, yesCost: yes.cost, noCost: no.cost }
}

async function overlay(sql: Statements, sync: PositionSync): Promise<void> {
  const [market, holder] = [bytesOf(sync.marketId), bytesOf(sync.holder)]
  await sql.run('delete from position_syncs where market_id = ? and holder = ?', [market, holder])
  await sql.insert('position_syncs', [
    {
      market_id: market,
      holder,
      chain_id: sync.chainId,
      block_number: sync.blockNumber,
      block_hash: bytesOf(sync.blockHash),
      yes_shares: sync.yesShares,
      no_shares: sync.noShares,
      at_ms: sync.atMs,
    },
  ])
  await keepNewest(sql, 'holder = ? and chain_id = ?', [holder, sync.chainId], {
    max: POSITION_SYNCS_PER_HOLDER_MAX,
  })
  await keepNewest(sql, 'market_id = ?', [market], { max: POSITION_SYNCS_PER_MARKET_MAX })
  await keepNewest(sql, 'chain_id = ?', [sync.chainId], { max: POSITION_SYNCS_MAX })
}

/**
 * If more than `max` rows of `position_syncs` match, deletes the oldest ones. The positions of the deleted rows are
 * then shown as indexed.
 */
async function keepNewest(
  sql: Statements,
  where: string,
  values: readonly (number | Buffer)[],
  { max }: { readonly max: number },
): Promise<void> {
  const [counted] = await sql.all<{ kept: number | string }>(
    `select count(*) as kept from position_syncs where ${where}`,
    values,
  )
  const over = Number(counted?.kept ?? 0) - max
  if (over <= 0) return
  const oldest = await sql.all<{ market_id: Buffer; holder: Buffer }>(
    `select market_id, holder from position_syncs where ${where} order by at_ms limit ?`,
    [...values, over],
  )
  for (const { market_id, holder } of oldest) {
    await sql.run('delete from position_syncs where market_id = ? and holder = ?', [
      Buffer.from(market_id),
      Buffer.from(holder),
    ])
  }
}

/**
 * Deletes the rows of `position_syncs` up to a block that the indexer has reached, because the positions
 * already contain these shares.
 */
export async function dropSyncsUpTo(
  sql: Statements,
  chainId: number,
  blockNumber: number,
): Promise<void> {
  await sql.run('delete from position_syncs where chain_id = ? and block_number <= ?', [
    chainId,
    blockNumber,
  ])
}

/**
 * Deletes all rows of `position_syncs` of a chain. After a reorg, it is unknown whether the blocks of these
 * rows are still on the chain.
 */
export async function dropSyncs(sql: Statements, chainId: number): Promise<void> {
  await sql.run('delete from position_syncs where chain_id = ?', [chainId])
}
