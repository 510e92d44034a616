/**
 * Stores the volume of each event, by which lists of events are sorted. It is the sum of the volumes of the event's
 * markets. It is written some seconds after the trades.
 */

import type { MarketId } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { statements } from '../engine/statements.ts'

/** SQL expression for the volume of the current row of `events`: the sum over the markets of that event. */
export const VOLUME_OF_EVENT = `(select coalesce(sum(s.volume_whole), 0) * 1000000
    + coalesce(sum(s.volume_millionths), 0)
  from event_markets m join market_stats s on s.market_id = m.market_id
  where m.chain_id = events.chain_id and m.event_hash = events.event_hash)`

/** Maximum number of markets per transaction. */
const MARKETS_MAX = 500

/**
 * Recomputes the volume of each event that has one of these markets. Repeating the call is safe, because it sets the
 * volumes and does not add to them.
 */
export async function sumEventVolumes(
  database: Database,
  marketIds: readonly MarketId[],
): Promise<void> {
  for (const some of partsOf(marketIds, MARKETS_MAX)) {
    await transact(database, async (transaction, connection) => {
      const sql = statements(database, connection, transaction)
      const found = await sql.all<{ chain_id: number | string; event_hash: Uint8Array }>(
        `select distinct chain_id, event_hash from event_markets
          where market_id in (${some.map(() => '?').join(', ')})`,
        some.map(bytesOf),
      )
      for (const { chain_id, event_hash } of found) {
        await sql.run(
          `update events set volume_e6 = ${VOLUME_OF_EVENT} where chain_id = ? and event_hash = ?`,
          [Number(chain_id), Buffer.from(event_hash)],
        )
      }
    })
  }
}

/**
 * Recomputes the volumes of all events, in batches. After a restart, the stored volumes may not include the last trades
 * before it.
 */
export async function sumAllEventVolumes(database: Database): Promise<void> {
  let [chainId, hash] = [0, Buffer.alloc(32)]
  for (;;) {
    const last = await transact(database, async (transaction, connection) => {
      const sql = statements(database, connection, transaction)
      const found = await sql.all<{ chain_id: number | string; event_hash: Uint8Array }>(
        `select chain_id, event_hash from events
          where chain_id > ? or (chain_id = ? and event_hash > ?)
          order by chain_id, event_hash limit ${MARKETS_MAX}`,
        [chainId, chainId, hash],
      )
      for (const { chain_id, event_hash } of found) {
        await sql.run(
          `update events set volume_e6 = ${VOLUME_OF_EVENT} where chain_id = ? and event_hash = ?`,
          [Number(chain_id), Buffer.from(event_hash)],
        )
      }
      return found.length < MARKETS_MAX ? undefined : found.at(-1)
    })
    if (last === undefined) return
    chainId = Number(last.chain_id)
    hash = Buffer.from(last.event_hash)
  }
}
