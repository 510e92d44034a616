/**
 * Writes events (groups of markets) and their markets, from the chain's data. An event never changes. If several events
 * of a chain have the same slug (name in links), the slug belongs to the first event. If a later market has this slug
 * with different event metadata, the metadata is refused, and the market has no event.
 */

import type { EventMarketCreated } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { EVENT_MARKETS_MAX } from '#domain/limits.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'
import { VOLUME_OF_EVENT } from '../writes/event-volumes.ts'

/** Adds a market to its event. Creates the event first if it is new. */
export async function joinEvent(
  sql: Statements,
  chainId: number,
  { marketId, eventHash, signer, info, blockNumber, logIndex, txHash, atSec }: EventMarketCreated,
): Promise<void> {
  const hash = bytesOf(eventHash)
  const [known] = await sql.all<{ event_hash: Uint8Array }>(
    'select event_hash from events where chain_id = ? and slug = ?',
    [chainId, info.slug],
  )
  if (known !== undefined && hexOf(known.event_hash) !== eventHash) {
    throw refusal(`another event has the slug ${info.slug}`)
  }
  const [market] = await sql.all(
    'select 1 from chain_markets where market_id = ? and chain_id = ? and listed = 1',
    [bytesOf(marketId), chainId],
  )
  if (market === undefined) throw refusal('the market is not listed')
  const [members] = await sql.all<{ markets: number | string }>(
    'select count(*) as markets from event_markets where chain_id = ? and event_hash = ?',
    [chainId, hash],
  )
  if (Number(members?.markets ?? 0) >= EVENT_MARKETS_MAX) {
    throw refusal(`the event ${info.slug} already has the maximum of ${EVENT_MARKETS_MAX} markets`)
  }
  const at = { block_number: blockNumber, log_index: logIndex, tx_hash: bytesOf(txHash) }
  if (known === undefined) {
    const { slug, title, description, category, tags, image, end, exclusive } = info
    await sql.insert('events', [
      {
        ...{ chain_id: chainId, event_hash: hash, slug, title, description, category, image },
        ...{ signer: bytesOf(signer), tags: tags.map((tag) => ` ${tag} `).join('') },
        searched: [slug, title, description, ...tags].join('\n').toLowerCase(),
        ...{ ends_at_sec: end, exclusive: exclusive ? 1 : 0, created_at_sec: atSec, volume_e6: 0 },
        ...at,
      },
    ])
  }
  await sql.insert('event_markets', [
    { market_id: bytesOf(marketId), chain_id: chainId, event_hash: hash, ...at },
  ])
  // Compute the event's volume again, because the added market may already have trades, for example while a database is
  // rebuilt.
  await sql.run(
    `update events set volume_e6 = ${VOLUME_OF_EVENT} where chain_id = ? and event_hash = ?`,
    [chainId, hash],
  )
}

function refusal(why: string): Fault {
  return new Fault('STORE_CONSTRAINT', why, { retryable: false })
}
