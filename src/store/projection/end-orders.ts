/**
 * Ends the orders of a closed market. The batch that closes a market changes only the market's row, because a million
 * of its orders may be open. Short separate transactions change the rows of the orders later, so that nothing else
 * waits for them. Until then, reads treat an open order of a closed market as ended.
 *
 * Only the status of an order changes. The order keeps the time of its last change, and the market's row has the end
 * time. So the result does not depend on the number of transactions, and a transaction can be repeated.
 */

import type { QueryResult } from '@mikro-orm/core'
import type { MarketId } from '#domain/ids.ts'
import { ORDERS_ENDED_MAX } from '#domain/limits.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

/** SQLite does not support `limit` in an update, and MySQL does not support it in a subquery. */
const UPDATES = {
  sqlite: `update orders set status = 'market-closed' where order_hash in (
    select order_hash from orders where market_id = ? and status = 'open' limit ?)`,
  mysql: `update orders set status = 'market-closed'
    where market_id = ? and status = 'open' limit ?`,
} as const

/** Ends some orders of a closed market; returns whether more of its orders may still be open. */
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

/** Maximum number of markets per read. */
const MARKETS_READ_MAX = 500

/**
 * Reads one part of the list of all markets. Returns the closed markets in this part that still have open orders. This
 * happens if a process ended before all orders of a market were ended. Also returns the position at which the next part
 * begins; undefined at the end.
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
