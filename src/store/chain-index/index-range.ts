/**
 * Writes what the indexer takes from a chain: each range of blocks is one transaction with the cursor,
 * and with everything that follows from its events.
 */

import type { BlockMark, ChainEvent } from '#domain/chain-event.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHAIN_MARKS_MAX } from '#domain/limits.ts'
import { type Database, transact } from '../engine/database.ts'
import { statements } from '../engine/statements.ts'
import { isMove, moveBalances } from './balances.ts'
import { insertMarks, moveCursor } from './cursor.ts'
import { insertEventRows } from './event-rows.ts'
import { createMarket, marketIds } from './market-rows.ts'
import { movePositions } from './positions-write.ts'
import { applyStep } from './resolution-steps.ts'
import { dropSyncsUpTo } from './sync-position.ts'

export type ChainRange = {
  readonly chainId: number
  /** Where the cursor has to stand. */
  readonly after: BlockMark
  /** Where it stands afterwards: the last block of the range. */
  readonly upTo: BlockMark
  /** Blocks of the range whose hashes are worth keeping, `upTo` among them. */
  readonly marks: readonly BlockMark[]
  /** In the order of the chain. */
  readonly events: readonly ChainEvent[]
  /** Markets that a reorg removed at or below this block, and that have not come back, are given up. */
  readonly giveUpOrphansOf: number
  readonly atMs: number
}

/** `already` says that the range had been written before. */
export type ChainWritten = {
  readonly written: 'applied' | 'already'
  /** Markets that are given up: the chain does not have them any more. */
  readonly withdrawn: readonly MarketId[]
}

/** Writes one range of blocks. */
export async function indexRange(database: Database, range: ChainRange): Promise<ChainWritten> {
  const { chainId, after, upTo, events } = range
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    if (!(await moveCursor(sql, chainId, { from: after, to: upTo, atMs: range.atMs }))) {
      return { written: 'already', withdrawn: [] }
    }
    await insertMarks(sql, chainId, range.marks)
    await sql.run(
      `delete from chain_blocks where chain_id = ? and block_number < ?
        and block_number <= (select oldest from (
          select block_number as oldest from chain_blocks where chain_id = ?
            order by block_number desc limit 1 offset ${CHAIN_MARKS_MAX}) as kept)`,
      [chainId, upTo.number, chainId],
    )
    for (const event of events) {
      if (event.type === 'MarketCreated') await createMarket(sql, chainId, event)
    }
    await insertEventRows(sql, chainId, events)
    for (const event of events) await applyStep(sql, chainId, event)
    await moveBalances(sql, chainId, events.filter(isMove), 1)
    await movePositions(sql, chainId, events)
    await dropSyncsUpTo(sql, chainId, upTo.number)
    const withdrawn = await marketIds(
      sql,
      `select market_id from chain_markets
        where chain_id = ? and withdrawn = 0 and orphaned_block <= ?`,
      [chainId, range.giveUpOrphansOf],
    )
    await sql.run(
      `update chain_markets set withdrawn = 1
        where chain_id = ? and withdrawn = 0 and orphaned_block <= ?`,
      [chainId, range.giveUpOrphansOf],
    )
    return { written: 'applied', withdrawn }
  })
}
