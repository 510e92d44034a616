/** Undoes blocks that a reorg removed, in one transaction. The tables are then as if these blocks had never existed. */

import type { BlockMark } from '#domain/chain-event.ts'
import type { MarketId } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { hexOf } from '../engine/hex.ts'
import { statements } from '../engine/statements.ts'
import { moveBalances } from './balances.ts'
import { moveCursor } from './cursor.ts'
import { marketIds } from './market-rows.ts'
import { marketsMovedAbove, refoldMarkets } from './positions-write.ts'
import { dropSyncs } from './sync-position.ts'

export type ChainRewind = {
  readonly chainId: number
  readonly from: BlockMark
  /** Last block that the chain has both before and after the reorg. */
  readonly to: BlockMark
  readonly atMs: number
}

export type ChainRewound = {
  readonly written: 'applied' | 'already'
  /** Markets that the reorg removed from the chain; a later block may contain them again. */
  readonly orphaned: readonly MarketId[]
  /** Markets whose resolution had a step in an undone block. */
  readonly reverted: readonly MarketId[]
}

/** Undoes every block above `to`. */
export async function rewindChain(database: Database, rewind: ChainRewind): Promise<ChainRewound> {
  const { chainId, from, to } = rewind
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const above = [chainId, to.number] as const
    if (!(await moveCursor(sql, chainId, { from, to, atMs: rewind.atMs }))) {
      return { written: 'already', orphaned: [], reverted: [] }
    }
    const orphaned = await marketIds(
      sql,
      `select market_id from chain_markets
        where chain_id = ? and created_block > ? and orphaned_block is null`,
      above,
    )
    const reverted = await marketIds(
      sql,
      `select distinct market_id from chain_market_events
        where chain_id = ? and block_number > ? and event not in ('created', 'settled')`,
      above,
    )
    const moved = await marketsMovedAbove(sql, chainId, to.number)
    const moves = await sql.all<{
      position_id: Uint8Array
      sender: Uint8Array
      receiver: Uint8Array
      amount: string
    }>(
      `select position_id, sender, receiver, cast(amount_e6 as char) as amount
        from chain_token_moves where chain_id = ? and block_number > ?`,
      above,
    )
    await moveBalances(
      sql,
      chainId,
      moves.map((row) => ({
        positionId: hexOf(row.position_id),
        from: hexOf(row.sender),
        to: hexOf(row.receiver),
        amount: BigInt(row.amount),
        blockNumber: to.number,
      })),
      -1,
    )
    for (const table of [
      'chain_blocks',
      'chain_market_events',
      'chain_token_moves',
      'chain_conversions',
      'chain_trades',
      'chain_withdrawn_orders',
      'chain_withdrawn_epochs',
      'chain_delegates',
      'chain_set_aside',
      'event_markets',
      'events',
    ]) {
      await sql.run(`delete from ${table} where chain_id = ? and block_number > ?`, above)
    }
    await sql.run(
      `delete from chain_outcomes where chain_id = ? and market_id in
        (select market_id from chain_markets where chain_id = ? and created_block > ?)`,
      [chainId, ...above],
    )
    // The tokens of a removed market were deleted above. So its positions become empty, even if tokens moved before its
    // creation.
    await refoldMarkets(sql, chainId, new Set([...moved, ...orphaned]))
    await dropSyncs(sql, chainId)
    await sql.run('delete from chain_assertions where chain_id = ? and proposed_block > ?', above)
    await sql.run(
      `update chain_assertions set disputed_block = null, disputed_at_sec = null, disputed_tx = null
        where chain_id = ? and disputed_block > ?`,
      above,
    )
    await sql.run(
      `update chain_assertions
        set ended_as = null, ended_block = null, ended_at_sec = null, ended_tx = null
        where chain_id = ? and ended_block > ?`,
      above,
    )
    await sql.run(
      `update chain_markets set resolved = 0, winning_outcome = null, resolved_block = null,
          resolved_at_sec = null, resolved_tx = null, end_start_price_e8 = null,
          end_price_e8 = null, end_source = null
        where chain_id = ? and resolved_block > ?`,
      above,
    )
    await sql.run(
      `update chain_markets set payouts = null, payouts_block = null
        where chain_id = ? and payouts_block > ?`,
      above,
    )
    // Keep the row of a removed market, but hide it from reads, because a later block may contain the market again.
    await sql.run(
      `update chain_markets set orphaned_block = ?, listed = 0
        where chain_id = ? and created_block > ? and orphaned_block is null`,
      [from.number, ...above],
    )
    return { written: 'applied', orphaned, reverted }
  })
}
