/**
 * Writes realised profits per holder and market (`position_profits`) and per holder and chain (`holder_profits`), in
 * the transaction that changes the positions. A profit outlives its position: a holder who redeemed everything still
 * has the profit. A profit of zero has no row, so undone blocks leave nothing behind.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'

type Profit = {
  readonly marketId: MarketId
  readonly holder: Address
  readonly profit: bigint
}

/** A changed profit, with its stored value. */
export type ProfitChange = Profit & { readonly counted: bigint }

type ProfitRow = { market_id: Uint8Array; holder: Uint8Array; profit: string }

const COLUMNS = 'market_id, holder, cast(profit_e6 as char) as profit'

/** Maximum number of keys per query. */
const KEYS_MAX = 100

export async function profitsOf(
  sql: Pick<Statements, 'all'>,
  keys: readonly (readonly [MarketId, Address])[],
): Promise<Profit[]> {
  const profits: Profit[] = []
  for (const part of partsOf(keys, KEYS_MAX)) {
    const rows = await sql.all<ProfitRow>(
      `select ${COLUMNS} from position_profits
        where ${part.map(() => '(market_id = ? and holder = ?)').join(' or ')}`,
      part.flatMap(([marketId, holder]) => [bytesOf(marketId), bytesOf(holder)]),
    )
    for (const row of rows) profits.push(profitOf(row))
  }
  return profits
}

export async function profitsOfMarket(
  sql: Pick<Statements, 'all'>,
  marketId: MarketId,
): Promise<Profit[]> {
  const rows = await sql.all<ProfitRow>(
    `select ${COLUMNS} from position_profits where market_id = ?`,
    [bytesOf(marketId)],
  )
  return rows.map(profitOf)
}

function profitOf(row: ProfitRow): Profit {
  return {
    marketId: hexOf(row.market_id) as MarketId,
    holder: hexOf(row.holder) as Address,
    profit: BigInt(row.profit),
  }
}

/** Writes changed profits, and adds the differences to the sum of each holder for this chain. */
export async function writeProfits(
  sql: Statements,
  chainId: number,
  changes: Iterable<ProfitChange>,
): Promise<void> {
  const kept: Record<string, string | number | Buffer>[] = []
  const differences = new Map<Address, bigint>()
  for (const { marketId, holder, profit, counted } of changes) {
    if (profit === counted) continue
    differences.set(holder, (differences.get(holder) ?? 0n) + profit - counted)
    const key = { market_id: bytesOf(marketId), holder: bytesOf(holder) }
    if (profit !== 0n) kept.push({ ...key, chain_id: chainId, profit_e6: String(profit) })
    else {
      await sql.run('delete from position_profits where market_id = ? and holder = ?', [
        ...[key.market_id, key.holder],
      ])
    }
  }
  await sql.insert('position_profits', kept, overwriting(sql.isMysql, 'market_id, holder'))
  await addToHolders(sql, chainId, [...differences])
}

async function addToHolders(
  sql: Statements,
  chainId: number,
  differences: readonly (readonly [Address, bigint])[],
): Promise<void> {
  for (const part of partsOf(differences, KEYS_MAX)) {
    const before = new Map<string, bigint>()
    const rows = await sql.all<{ holder: Uint8Array; profit: string }>(
      `select holder, cast(profit_e6 as char) as profit from holder_profits
        where chain_id = ? and holder in (${part.map(() => '?').join(', ')})`,
      [chainId, ...part.map(([holder]) => bytesOf(holder))],
    )
    for (const row of rows) before.set(hexOf(row.holder), BigInt(row.profit))
    const kept: Record<string, string | number | Buffer>[] = []
    for (const [holder, difference] of part) {
      const profit = (before.get(holder) ?? 0n) + difference
      const key = { chain_id: chainId, holder: bytesOf(holder) }
      if (profit !== 0n) kept.push({ ...key, profit_e6: String(profit) })
      else {
        await sql.run('delete from holder_profits where chain_id = ? and holder = ?', [
          ...[chainId, key.holder],
        ])
      }
    }
    await sql.insert('holder_profits', kept, overwriting(sql.isMysql, 'chain_id, holder'))
  }
}

function overwriting(isMysql: boolean, key: string): string {
  return isMysql
    ? ' on duplicate key update profit_e6 = values(profit_e6)'
    : ` on conflict (${key}) do update set profit_e6 = excluded.profit_e6`
}
