/**
 * What a market is called, remembered by whoever reads: a row of `markets` never changes its words, and to
 * look them up with every trade took as long as to find the trade.
 */

import type { Address } from '#domain/ids.ts'
import { MARKET_WORDS_MAX } from '#domain/limits.ts'
import type { Database } from '../engine/database.ts'
import { hexColumn } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'

/** The same object for the same market, as long as it is remembered. */
export type MarketWords = { readonly question: string; readonly contractAddress: Address }

type Row = { readonly market: string; readonly question: string; readonly contract: string }

/** Markets that one statement asks for. */
const ASKED_MAX = 8

/** Two generations: what is asked for again stays, and nothing has to be kept in order of use. */
type Known = { young: Map<string, MarketWords>; old: Map<string, MarketWords> }
const known = new WeakMap<Database, Known>()

/** Of a market that is not there. */
const NONE: MarketWords = { question: '', contractAddress: '0x' as Address }

/** The words of markets by the digits of their ids; those of a market that is not there are empty. */
export async function wordsOfMarkets(
  database: Database,
  markets: readonly string[],
): Promise<(market: string) => MarketWords> {
  const words = known.get(database) ?? { young: new Map(), old: new Map() }
  known.set(database, words)
  const found = new Map<string, MarketWords>()
  const unknown = new Set<string>()
  for (const market of markets) {
    const own = words.young.get(market) ?? words.old.get(market)
    if (own === undefined) unknown.add(market)
    else found.set(market, own)
  }
  const asked = [...unknown]
  for (let from = 0; from < asked.length; from += ASKED_MAX) {
    for (const row of await rowsOfMarkets(database, asked.slice(from, from + ASKED_MAX))) {
      const contractAddress = `0x${row.contract}` as Address
      found.set(row.market, { question: row.question, contractAddress })
    }
  }
  for (const [market, own] of found) remember(words, market, own)
  return (market) => found.get(market) ?? NONE
}

/** One text for every number of markets: places that are left over ask for the last one again. */
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

function remember(words: Known, market: string, own: MarketWords): void {
  if (words.young.has(market)) return
  if (words.young.size >= MARKET_WORDS_MAX / 2) {
    words.old = words.young
    words.young = new Map()
  }
  words.young.set(market, own)
}
