/**
 * Orders that ended with their market. A market closes in one row, and there may be a million orders open in
 * it: their rows follow in short transactions of their own, so that nothing else waits for them. Until they
 * have, an open order of a market that is closed is read as one that has ended.
 *
 * Only the status changes. When an order ended so is what its market's row says, and the last change of the
 * order itself stays what it was; so it makes no difference in how many steps, or how often, this is done.
 */

import type { QueryResult } from '@mikro-orm/core'
import type { MarketId } from '#domain/ids.ts'
import { ORDERS_ENDED_MAX } from '#domain/limits.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

/** SQLite has no limit of an update, and MySQL none of a query inside one. */
const UPDATES = {
  sqlite: `update orders set status = 'market-closed' where order_hash in (
    select order_hash from orders where market_id = ? and status = 'open' limit ?)`,
  mysql: `update orders set status = 'market-closed'
    where market_id = ? and status = 'open' limit ?`,
} as const

/** Ends some orders of a market that is closed; answers whether there may be more. */
export async function endOrders(database: Database, marketId: MarketId): Promise<boolean> {
  const ended = await transact(database, async (transaction, connection) => {
    const result = await connection.execute<QueryResult>(
      UPDATES[database.address.dialect],
      [bytesOf(marketId), ORDERS_ENDED_MAX],
      'run',
      transaction,
    )
    return result.affectedRows
  })
  return ended === ORDERS_ENDED_MAX
}

/** Closed markets that one look reads. */
const MARKETS_READ_MAX = 500

/**
 * Closed markets that still have open orders, from a place in the list of all markets on, and the place
 * behind the last one that was looked at; undefined at the end. A process may have ended between two steps.
 */
export async function marketsToEnd(
  database: Database,
  after: MarketId | undefined,
): Promise<{ readonly marketIds: MarketId[]; readonly next: MarketId | undefined }> {
  const rows = await read(database, (em) =>
    em.getConnection().execute<{ market_id: Buffer; ends: number | string }[]>(
      `select m.market_id as market_id, case when m.close_reason is null then 0
          else exists (select 1 from orders o where o.market_id = m.market_id and o.status = 'open')
        end as ends
        from markets m where m.market_id > ? order by m.market_id limit ${MARKETS_READ_MAX}`,
      [bytesOf(after ?? '0x')],
    ),
  )
  const ids = rows.map((row) => hexOf(row.market_id) as MarketId)
  return {
    marketIds: ids.filter((_, index) => Number(rows[index]?.ends) === 1),
    next: rows.length < MARKETS_READ_MAX ? undefined : ids.at(-1),
  }
}
