/**
 * Compares the stored positions with the sums of the chain's movements that the indexer wrote. Covers shares, cost,
 * realised profits, holders and open interest. A caller that can read the chain also compares the positions from
 * `heldAt` with the balances on the chain.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { OUTCOMES } from '#domain/order.ts'
import { foldedMarket } from '../chain-index/positions-write.ts'
import { profitsOfMarket } from '../chain-index/profits-write.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { type Statements, statements } from '../engine/statements.ts'
import type { Difference } from './audit-trades.ts'

type PositionAudit = {
  readonly markets: number
  readonly positions: number
  readonly differences: readonly Difference[]
}

const DIFFERENCES_MAX = 1_000

export async function auditPositions(database: Database): Promise<PositionAudit> {
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const differences: Difference[] = []
    const compare = (what: string, kept: string, expected: string): void => {
      if (kept === expected || differences.length >= DIFFERENCES_MAX) return
      differences.push({ what, kept, expected })
    }
    const found = await sql.all<{ chain_id: number | string; market_id: Uint8Array }>(
      'select distinct chain_id, market_id from chain_outcomes order by chain_id, market_id',
      [],
    )
    let positions = 0
    let held = 0
    let profitable = 0
    const chains = new Map<number, ChainSums>()
    const sumsOf = (chainId: number): ChainSums => {
      const sums = chains.get(chainId) ?? { holders: 0, locked: 0n, profits: new Map() }
      chains.set(chainId, sums)
      return sums
    }
    for (const row of found) {
      const chainId = Number(row.chain_id)
      const total = sumsOf(chainId)
      const market = await compareMarket(sql, chainId, hexOf(row.market_id) as MarketId, compare)
      positions += market.holders
      if (market.holders !== 0 || market.locked !== 0n) held += 1
      profitable += [...market.profits.values()].filter((profit) => profit !== 0n).length
      total.holders += market.holders
      total.locked += market.locked
      for (const [holder, profit] of market.profits) {
        total.profits.set(holder, (total.profits.get(holder) ?? 0n) + profit)
      }
    }
    // Also compare chains that have rows in these tables but no market; such chains must have no holdings.
    const others = await sql.all<{ chain_id: number | string }>(
      'select chain_id from chain_holdings union select chain_id from holder_profits',
      [],
    )
    for (const row of others) sumsOf(Number(row.chain_id))
    for (const [chainId, { holders, locked, profits }] of chains) {
      const [kept] = await sql.all<HoldingsRow>(
        `select holders, cast(locked_e6 as char) as locked from chain_holdings where chain_id = ?`,
        [chainId],
      )
      compare(`holdings of chain ${chainId}`, holdingsText(kept), `${locked} of ${holders} holders`)
      const rows = await sql.all<{ holder: Uint8Array; profit: string }>(
        'select holder, cast(profit_e6 as char) as profit from holder_profits where chain_id = ?',
        [chainId],
      )
      const made = new Map(rows.map((row) => [hexOf(row.holder) as Address, BigInt(row.profit)]))
      const what = (holder: Address) => `profit of ${holder} on chain ${chainId}`
      compareProfits(made, profits, (holder, ...both) => compare(what(holder), ...both))
    }
    // The comparisons above cover only markets that the chain has. Compare the numbers of rows too, to detect rows of
    // other markets.
    compare('rows of positions', await counted(sql, 'positions'), String(positions))
    compare('markets that are held', await counted(sql, HELD), String(held))
    compare('rows of profits', await counted(sql, 'position_profits'), String(profitable))
    return { markets: found.length, positions, differences }
  })
}

/**
 * Selects markets with holders or locked collateral. A market whose holders and collateral are gone keeps a row with
 * zeros.
 */
const HELD = "market_holdings where holders <> 0 or locked_e6 <> '0'"

async function counted(sql: Statements, from: string): Promise<string> {
  const [row] = await sql.all<{ found: number | string }>(
    `select count(*) as found from ${from}`,
    [],
  )
  return String(row?.found ?? 0)
}

type Compare = (what: string, kept: string, expected: string) => void
type ChainSums = { holders: number; locked: bigint; readonly profits: Map<Address, bigint> }
type HoldingsRow = { holders: number | string; locked: string }

function holdingsText(row: HoldingsRow | undefined): string {
  return `${row?.locked ?? 0} of ${row?.holders ?? 0} holders`
}

/** Compares the profits of all holders; a profit of zero has no row. */
function compareProfits(
  kept: ReadonlyMap<Address, bigint>,
  expected: ReadonlyMap<Address, bigint>,
  compare: (holder: Address, kept: string, expected: string) => void,
): void {
  for (const holder of new Set([...kept.keys(), ...expected.keys()])) {
    compare(holder, String(kept.get(holder) ?? 0n), String(expected.get(holder) ?? 0n))
  }
}

async function compareMarket(
  sql: Statements,
  chainId: number,
  marketId: MarketId,
  compare: Compare,
): Promise<ChainSums> {
  const { positions, locked } = await foldedMarket(sql, chainId, marketId)
  const rows = await sql.all<{
    holder: Uint8Array
    yes: string
    no: string
    total: string
    yes_cost: string
    no_cost: string
  }>(
    `select holder, cast(yes_shares_e6 as char) as yes, cast(no_shares_e6 as char) as no,
        cast(total_shares_e6 as char) as total, cast(yes_cost_e6 as char) as yes_cost,
        cast(no_cost_e6 as char) as no_cost
      from positions where market_id = ?`,
    [bytesOf(marketId)],
  )
  const kept = new Map(
    rows.map((row) => [
      hexOf(row.holder) as Address,
      `YES ${row.yes} for ${row.yes_cost}, NO ${row.no} for ${row.no_cost}, ${BigInt(row.total)} in all`,
    ]),
  )
  let holders = 0
  const profits = new Map<Address, bigint>()
  for (const { holder, sides, profit } of positions.values()) {
    const [yes, no] = sides
    profits.set(holder, profit)
    if (OUTCOMES.every((outcome) => sides[outcome].shares === 0n)) continue
    holders += 1
    const expected = `YES ${yes.shares} for ${yes.cost}, NO ${no.shares} for ${no.cost}, ${yes.shares + no.shares} in all`
    compare(`position of ${holder} in ${marketId}`, kept.get(holder) ?? 'none', expected)
    kept.delete(holder)
  }
  for (const [holder, row] of kept) compare(`position of ${holder} in ${marketId}`, row, 'none')
  const made = await profitsOfMarket(sql, marketId)
  compareProfits(
    new Map(made.map(({ holder, profit }) => [holder, profit])),
    profits,
    (holder, ...both) => compare(`profit of ${holder} in ${marketId}`, ...both),
  )
  const [holdings] = await sql.all<HoldingsRow>(
    'select holders, cast(locked_e6 as char) as locked from market_holdings where market_id = ?',
    [bytesOf(marketId)],
  )
  compare(`holdings of ${marketId}`, holdingsText(holdings), `${locked} of ${holders} holders`)
  return { holders, locked, profits }
}

type IndexedPosition = {
  readonly holder: Address
  readonly marketId: MarketId
  readonly shares: readonly [yes: bigint, no: bigint]
}

/**
 * Returns all positions on a chain and their block, which is the last indexed block. Includes holders whose balance in
 * the database is zero, because the chain may show that they have shares.
 */
export async function heldAt(
  database: Database,
  chainId: number,
): Promise<{ blockNumber: number; held: IndexedPosition[] } | undefined> {
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const [cursor] = await sql.all<{ indexed_block: number | string }>(
      'select indexed_block from chain_cursors where chain_id = ?',
      [chainId],
    )
    if (cursor === undefined) return undefined
    const rows = await sql.all<{
      market_id: Uint8Array
      holder: Uint8Array
      yes: string | null
      no: string | null
    }>(
      `select distinct o.market_id as market_id, b.holder as holder,
          cast(p.yes_shares_e6 as char) as yes, cast(p.no_shares_e6 as char) as no
        from chain_token_balances as b
        join chain_outcomes as o on o.chain_id = b.chain_id and o.position_id = b.position_id
        left join positions as p on p.market_id = o.market_id and p.holder = b.holder
        where b.chain_id = ?`,
      [chainId],
    )
    const held = rows.map((row) => ({
      holder: hexOf(row.holder) as Address,
      marketId: hexOf(row.market_id) as MarketId,
      shares: [BigInt(row.yes ?? 0), BigInt(row.no ?? 0)] as const,
    }))
    return { blockNumber: Number(cursor.indexed_block), held }
  })
}
