/**
 * Reads the texts of markets (question and contract address) through a cache for each `Database`. The texts in a row of
 * `markets` never change, so cached texts are never outdated. Without the cache, reading the market texts of a trade
 * took as long as reading the trade.
 */

import type { Address } from '#domain/ids.ts'
import { MARKET_TEXTS_MAX } from '#domain/limits.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { Database } from '../engine/database.ts'
import { hexColumn } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'

/** Texts of a market. While a market is cached, every look-up returns the same object. */
export type MarketTexts = { readonly question: string; readonly contractAddress: Address }

type Row = { readonly market: string; readonly question: string; readonly contract: string }

/** Maximum number of markets per statement. */
const ASKED_MAX = 8

/**
 * The cache consists of two maps. When the young map is full, it becomes the old map, and the previous old map is
 * dropped. An entry that is used again moves to the young map, so entries in use are kept.
 */
type Known = { young: Map<string, MarketTexts>; old: Map<string, MarketTexts> }
const known = new WeakMap<Database, Known>()

/** Placeholder for the texts of a market that does not exist. */
const NONE: MarketTexts = { question: '', contractAddress: '0x' as Address }

/**
 * Loads the texts of these markets, which are given by the hex digits of their ids. The returned function returns a
 * market's texts, or empty texts for a market that does not exist.
 */
export async function textsOfMarkets(
  database: Database,
  markets: readonly string[],
): Promise<(market: string) => MarketTexts> {
  const cache = known.get(database) ?? { young: new Map(), old: new Map() }
  known.set(database, cache)
  const found = new Map<string, MarketTexts>()
  const unknown = new Set<string>()
  for (const market of markets) {
    const own = cache.young.get(market) ?? cache.old.get(market)
    if (own === undefined) unknown.add(market)
    else found.set(market, own)
  }
  const asked = [...unknown]
  for (const part of partsOf(asked, ASKED_MAX)) {
    for (const row of await rowsOfMarkets(database, part)) {
      const contractAddress = `0x${row.contract}` as Address
      found.set(row.market, { question: row.question, contractAddress })
    }
  }
  for (const [market, own] of found) remember(cache, market, own)
  return (market) => found.get(market) ?? NONE
}

/**
 * Reads at most `ASKED_MAX` markets, always with the same prepared statement. The id of the last market fills unused
 * parameters.
 */
function rowsOfMarkets(database: Database, markets: readonly string[]): Promise<Row[]> {
  const ids = Array.from({ length: ASKED_MAX }, (_, at) =>
    Buffer.from(markets[Math.min(at, markets.length - 1)]!, 'hex'),
  )
  return rowsOf<Row>(
    database,
    `select ${hexColumn('market_id')} as market, question, ${hexColumn('contract_address')} as contract
      from markets where market_id in (${ids.map(() => '?').join(', ')})`,
    ids,
  )
}

function remember(cache: Known, market: string, own: MarketTexts): void {
  if (cache.young.has(market)) return
  if (cache.young.size >= MARKET_TEXTS_MAX / 2) {
    cache.old = cache.young
    cache.young = new Map()
  }
  cache.young.set(market, own)
}
