/** Creates many event pages without markets, for tests and measurements of the lists of events. */

import type { MarketId } from '#domain/ids.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { bytesOf } from '#store/engine/hex.ts'
import { CHAIN, NOW, person, word } from '../chain-index/chain-events.ts'

/** Inserts events. The event with the number 0 is the oldest, and the only one with `needle` in its text. */
export async function fillEvents(database: Database, count: number, text = ''): Promise<void> {
  const rows = Array.from({ length: count }, (_, at) => at)
  for (let from = 0; from < count; from += 500) {
    const some = rows.slice(from, from + 500)
    await sqlConnection(database).execute(
      `insert into events (chain_id, event_hash, slug, title, description, category, tags, image, signer,
        searched, ends_at_sec, exclusive, created_at_sec, volume_e6, block_number, log_index, tx_hash)
        values ${some.map(() => '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ')}`,
      some.flatMap((at) => [
        ...[CHAIN, bytesOf(word(at + 1)), `e${at}`, `Event ${at}`, text, 'general', ' a ', ''],
        ...[
          bytesOf(person(2)),
          `${at === 0 ? 'the needle' : `event ${at}`} ${text}`,
          NOW + (at % 900),
          1,
        ],
        ...[NOW + at, at % 10, 1, at, bytesOf(word(at + 1))],
      ]),
    )
  }
  if (database.address.dialect === 'mysql')
    await sqlConnection(database).execute('analyze table events')
}

/** Puts each market into an event of its own. */
export async function joinEvents(
  database: Database,
  marketIds: readonly MarketId[],
): Promise<void> {
  await sqlConnection(database).execute(
    `insert into event_markets (market_id, chain_id, event_hash, block_number, log_index, tx_hash)
      values ${marketIds.map(() => '(?, ?, ?, ?, ?, ?)').join(', ')}`,
    marketIds.flatMap((marketId, at) => [
      ...[bytesOf(marketId), CHAIN, bytesOf(word(at + 1)), 1, at, bytesOf(word(at + 1))],
    ]),
  )
}
