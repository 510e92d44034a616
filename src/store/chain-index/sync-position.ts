/** The one write of positions that a user may ask for: taking over what the chain says. */

import type { Address, MarketId } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { type Statements, statements } from '../engine/statements.ts'
import { overwritePosition } from './positions-write.ts'

export type PositionSync = {
  readonly chainId: number
  readonly marketId: MarketId
  readonly holder: Address
  /** The block that the shares are of. */
  readonly blockNumber: number
  /** Decimal text. */
  readonly yesShares: string
  readonly noShares: string
}

/**
 * Overwrites a position by what the chain said at a block. `moved` where the database is not at a
 * block from which that still holds: then the chain has to be asked again.
 */
export async function syncPosition(
  database: Database,
  sync: PositionSync,
): Promise<'synced' | 'moved'> {
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    if (!(await stillHolds(sql, sync))) return 'moved'
    await overwritePosition(sql, sync, [BigInt(sync.yesShares), BigInt(sync.noShares)])
    return 'synced'
  })
}

async function stillHolds(sql: Statements, sync: PositionSync): Promise<boolean> {
  const { chainId, marketId, holder, blockNumber } = sync
  const [cursor] = await sql.all<{ indexed_block: number | string }>(
    'select indexed_block from chain_cursors where chain_id = ?',
    [chainId],
  )
  if (cursor === undefined || Number(cursor.indexed_block) < blockNumber) return false
  const later = await sql.all(
    `select 1 as found from chain_outcomes as o
      join chain_token_balances as b on b.chain_id = o.chain_id and b.position_id = o.position_id
      where o.market_id = ? and b.holder = ? and b.block_number > ?`,
    [bytesOf(marketId), bytesOf(holder), blockNumber],
  )
  return later.length === 0
}
