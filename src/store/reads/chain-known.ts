/**
 * Finds which contracts and tokens of a chain are known, so that the reader of the chain can ignore events of
 * unknown contracts and tokens.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

/**
 * Maximum number of keys per statement. Databases limit the parameters of a statement, and anyone can raise the number
 * of keys by sending transactions.
 */
const KEYS_MAX = 200

/** Returns the contracts that are markets of the chain; events of other contracts are ignored. */
export async function marketsOfContracts(
  database: Database,
  { chainId, contracts }: { readonly chainId: number; readonly contracts: readonly Address[] },
): Promise<{ contract: Address; marketId: MarketId }[]> {
  const rows = await inParts(contracts, (part) =>
    select<{ contract_address: Uint8Array; market_id: Uint8Array }>(
      database,
      `select contract_address, market_id from chain_markets
        where chain_id = ? and contract_address in (${part.map(() => '?').join(', ')})`,
      [chainId, ...part.map(bytesOf)],
    ),
  )
  return rows.map((row) => ({
    contract: hexOf(row.contract_address) as Address,
    marketId: hexOf(row.market_id) as MarketId,
  }))
}

/** Returns the contracts of unresolved markets: only these can emit further events. */
export async function openMarketContracts(
  database: Database,
  { chainId, limit }: { readonly chainId: number; readonly limit: number },
): Promise<Address[]> {
  const rows = await select<{ contract_address: Uint8Array }>(
    database,
    `select contract_address from chain_markets where chain_id = ? and resolved = 0 and listed = 1
      limit ${Math.floor(limit)}`,
    [chainId],
  )
  return rows.map((row) => hexOf(row.contract_address) as Address)
}

/** Returns the given tokens that belong to a market of the chain, or that have already moved. */
export async function followedTokens(
  database: Database,
  { chainId, positionIds }: { readonly chainId: number; readonly positionIds: readonly string[] },
): Promise<string[]> {
  type Row = { position_id: Uint8Array }
  const ofMarkets = await inParts(positionIds, (part) =>
    select<Row>(
      database,
      `select position_id from chain_outcomes
        where chain_id = ? and position_id in (${part.map(() => '?').join(', ')})`,
      [chainId, ...part.map(bytesOf)],
    ),
  )
  const known = new Set(ofMarkets.map((row) => hexOf(row.position_id)))
  // A token may have very many holders; one row is enough to show that the token has moved.
  const one = `select * from (select position_id from chain_token_balances
    where chain_id = ? and position_id = ? limit 1) as held`
  const others = await inParts(
    positionIds.filter((id) => !known.has(id)),
    (part) =>
      select<Row>(
        database,
        part.map(() => one).join(' union all '),
        part.flatMap((id) => [chainId, bytesOf(id)]),
      ),
  )
  for (const row of others) known.add(hexOf(row.position_id))
  return [...known]
}

async function inParts<Key, Row>(
  keys: readonly Key[],
  ask: (part: readonly Key[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = []
  for (const part of partsOf(keys, KEYS_MAX)) rows.push(...(await ask(part)))
  return rows
}

function select<Row>(
  database: Database,
  sql: string,
  values: readonly (number | Buffer)[],
): Promise<Row[]> {
  return read(database, () => sqlConnection(database).execute<Row[]>(sql, [...values], 'all'))
}
