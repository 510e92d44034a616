/**
 * Computes all sums again from the trades, so that the audit can compare them with the projector's sums. Reads the
 * trades market by market, so only one market is in memory.
 */

import type { Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { Address, MarketId } from '#domain/ids.ts'
import { hexOf } from '../engine/hex.ts'
import { count, newTally, type SpanDelta, type Tally } from './tally.ts'

export type Sql = { readonly connection: AbstractSqlConnection; readonly transaction: Transaction }

/** Sums of a chain. */
export type ChainCount = {
  readonly spans: Map<string, SpanDelta>
  readonly traders: Set<Address>
  trades: number
  pending: number
  markets: number
  closed: number
  resolved: number
}

const PAGE_ROWS = 5_000

type TradeRow = {
  readonly market_id: Buffer
  readonly seq: number | string
  readonly fill_index: number
  readonly chain_id: number | string
  readonly outcome: number
  readonly price_e6: number
  readonly cost_e6: number | string
  readonly matched_at_ms: number | string
  readonly failed_at_ms: number | string | null
  readonly pending: number
  readonly buyer: Buffer
  readonly seller: Buffer
}

/** Counts all trades again. Passes each market's sums to `take`, and returns the sums of the chains. */
export async function recount(
  sql: Sql,
  take: (marketId: MarketId, tally: Tally) => Promise<void>,
): Promise<Map<number, ChainCount>> {
  const chains = new Map<number, ChainCount>()
  for (const row of await countedMarkets(sql)) {
    const chain = chainIn(chains, Number(row.chain_id))
    const markets = Number(row.markets)
    chain.markets += markets
    if (row.close_reason !== null) chain.closed += markets
    if (row.close_reason === 'resolved') chain.resolved += markets
  }
  let tally = newTally()
  let marketId: MarketId | undefined
  let last: TradeRow | undefined
  for (;;) {
    const page = await nextTrades(sql, last)
    for (const row of page) {
      const id = hexOf(row.market_id) as MarketId
      if (id !== marketId) {
        if (marketId !== undefined) await take(marketId, tally)
        tally = newTally()
        marketId = id
      }
      const chain = chainIn(chains, Number(row.chain_id))
      // Both sides of a trade count as traders, even if the chain refused the trade.
      chain.traders.add(hexOf(row.buyer) as Address)
      chain.traders.add(hexOf(row.seller) as Address)
      chain.pending += row.pending
      if (row.failed_at_ms === null) countRow(tally, chain, id, row)
    }
    last = page.at(-1)
    if (page.length < PAGE_ROWS) break
  }
  if (marketId !== undefined) await take(marketId, tally)
  return chains
}

function countRow(tally: Tally, chain: ChainCount, marketId: MarketId, row: TradeRow): void {
  // The chain's spans sum all its markets. All other sums in `tally` begin at zero with each market.
  count(
    { ...tally, spans: chain.spans },
    {
      marketId,
      chainId: Number(row.chain_id),
      seq: Number(row.seq),
      fillIndex: row.fill_index,
      outcome: row.outcome,
      price: row.price_e6,
      cost: Number(row.cost_e6),
      matchedAtMs: Number(row.matched_at_ms),
    },
  )
  chain.trades += 1
}

function chainIn(chains: Map<number, ChainCount>, chainId: number): ChainCount {
  let chain = chains.get(chainId)
  if (chain === undefined) {
    const counts = { trades: 0, pending: 0, markets: 0, closed: 0, resolved: 0 }
    chain = { spans: new Map(), traders: new Set(), ...counts }
    chains.set(chainId, chain)
  }
  return chain
}

function countedMarkets({ connection, transaction }: Sql) {
  return connection.execute<
    { chain_id: number | string; close_reason: string | null; markets: number | string }[]
  >(
    `select chain_id, close_reason, count(*) as markets from markets
      group by chain_id, close_reason`,
    [],
    'all',
    transaction,
  )
}

async function nextTrades(sql: Sql, after: TradeRow | undefined): Promise<TradeRow[]> {
  const columns = `market_id, seq, fill_index, chain_id, outcome, price_e6, cost_e6, matched_at_ms,
    failed_at_ms, pending, buyer, seller`
  const order = 'order by market_id, seq, fill_index limit'
  const ask = (where: string, values: readonly (number | string | Buffer)[], limit: number) =>
    sql.connection.execute<TradeRow[]>(
      `select ${columns} from trades ${where} ${order} ${limit}`,
      values,
      'all',
      sql.transaction,
    )
  if (after === undefined) return ask('', [], PAGE_ROWS)
  const { market_id, seq, fill_index } = after
  // Read three ranges of one index in turn: later fills of the same event, later events of the same market, and the
  // following markets.
  const page: TradeRow[] = []
  const parts: [where: string, values: (number | string | Buffer)[]][] = [
    ['where market_id = ? and seq = ? and fill_index > ?', [market_id, seq, fill_index]],
    ['where market_id = ? and seq > ?', [market_id, seq]],
    ['where market_id > ?', [market_id]],
  ]
  for (const [where, values] of parts) {
    if (page.length < PAGE_ROWS) page.push(...(await ask(where, values, PAGE_ROWS - page.length)))
  }
  return page
}
