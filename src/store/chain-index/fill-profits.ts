/**
 * Counts realised profits in a database from before they were kept, market by market, each in a transaction of
 * its own. A count that was broken off is done again from the start, and comes to the same.
 */

import type { MarketId } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { hexOf } from '../engine/hex.ts'
import { statements } from '../engine/statements.ts'
import { recountProfits } from './positions-write.ts'

export async function fillProfits(database: Database): Promise<void> {
  const within = <T>(work: (sql: ReturnType<typeof statements>) => Promise<T>): Promise<T> =>
    transact(database, (transaction, connection) =>
      work(statements(database, connection, transaction)),
    )
  const chains = await within((sql) =>
    sql.all<{ chain_id: number | string }>('select chain_id from uncounted_profits', []),
  )
  for (const { chain_id } of chains) {
    const chainId = Number(chain_id)
    const markets = await within((sql) =>
      sql.all<{ market_id: Uint8Array }>(
        'select distinct market_id from chain_outcomes where chain_id = ?',
        [chainId],
      ),
    )
    for (const { market_id } of markets) {
      await within((sql) => recountProfits(sql, chainId, hexOf(market_id) as MarketId))
    }
    await within((sql) => sql.run('delete from uncounted_profits where chain_id = ?', [chainId]))
  }
}
