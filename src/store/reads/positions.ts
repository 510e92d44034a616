/** Reads of positions: who holds how much of which market, and what stands behind it. */

import type { Address, MarketId } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

export type PositionRecord = {
  readonly marketId: MarketId
  readonly yesShares: bigint
  readonly noShares: bigint
  readonly yesCost: bigint
  readonly noCost: bigint
}

export type UserPosition = PositionRecord & {
  readonly question: string
  readonly contractAddress: Address
  readonly expiration: number
  readonly resolved: boolean
}

type Holder = PositionRecord & { readonly holder: Address }

export type MarketHolders = { readonly top: readonly Holder[]; readonly total: number }

/** A market as a path names it: by its id, or by the address of its contract. */
type MarketName = { readonly marketId: MarketId } | { readonly contractAddress: Address }

const AMOUNTS = `cast(p.yes_shares_e6 as char) as yes_shares, cast(p.no_shares_e6 as char) as no_shares,
  cast(p.yes_cost_e6 as char) as yes_cost, cast(p.no_cost_e6 as char) as no_cost`

type Row = {
  readonly market_id: Uint8Array
  readonly yes_shares: string
  readonly no_shares: string
  readonly yes_cost: string
  readonly no_cost: string
}

/** What a user has of a market; undefined when that is nothing. */
export async function positionOf(
  database: Database,
  { market, user }: { readonly market: MarketName; readonly user: Address },
): Promise<PositionRecord | undefined> {
  const [row] =
    'marketId' in market
      ? await ask<Row>(
          database,
          `select p.market_id, ${AMOUNTS} from positions as p where p.market_id = ? and p.holder = ?`,
          [bytesOf(market.marketId), bytesOf(user)],
        )
      : await ask<Row>(
          database,
          `select p.market_id, ${AMOUNTS} from chain_markets as m
            join positions as p on p.market_id = m.market_id
            where m.contract_address = ? and p.holder = ? limit 1`,
          [bytesOf(market.contractAddress), bytesOf(user)],
        )
  return row === undefined ? undefined : positionRecord(row)
}

/** What a user has on a chain, market by market, behind a market's id. */
export async function positionsOfUser(
  database: Database,
  filter: {
    readonly user: Address
    readonly chainId: number
    readonly limit: number
    readonly after?: MarketId | undefined
  },
): Promise<UserPosition[]> {
  const { user, chainId, limit, after } = filter
  type Words = {
    question: string
    contract_address: Uint8Array
    expires_at_sec: number | string
    resolved: number
  }
  const rows = await ask<Row & Words>(
    database,
    `select p.market_id, ${AMOUNTS}, m.question, m.contract_address, m.expires_at_sec, m.resolved
      from positions as p join chain_markets as m on m.market_id = p.market_id
      where p.holder = ? and p.chain_id = ? ${after === undefined ? '' : 'and p.market_id > ?'}
      order by p.market_id limit ?`,
    [bytesOf(user), chainId, ...(after === undefined ? [] : [bytesOf(after)]), limit],
  )
  return rows.map((row) => ({
    ...positionRecord(row),
    question: row.question,
    contractAddress: hexOf(row.contract_address) as Address,
    expiration: Number(row.expires_at_sec),
    resolved: Number(row.resolved) === 1,
  }))
}

/** Who has most of a market, both outcomes together, and how many have any of it. */
export async function holdersOf(
  database: Database,
  { marketId, limit }: { readonly marketId: MarketId; readonly limit: number },
): Promise<MarketHolders> {
  const id = bytesOf(marketId)
  const [top, counted] = await Promise.all([
    ask<Row & { holder: Uint8Array }>(
      database,
      `select p.market_id, p.holder, ${AMOUNTS} from positions as p where p.market_id = ?
        order by p.total_shares_e6 desc, p.holder desc limit ?`,
      [id, limit],
    ),
    ask<{ holders: number | string }>(
      database,
      'select holders from market_holdings where market_id = ?',
      [id],
    ),
  ])
  return {
    top: top.map((row) => ({ ...positionRecord(row), holder: hexOf(row.holder) as Address })),
    total: Number(counted[0]?.holders ?? 0),
  }
}

/** The collateral that stands behind the tokens of a market. */
export async function openInterestOf(
  database: Database,
  { marketId }: { readonly marketId: MarketId },
): Promise<bigint> {
  const [row] = await ask<{ locked: string }>(
    database,
    'select cast(locked_e6 as char) as locked from market_holdings where market_id = ?',
    [bytesOf(marketId)],
  )
  return BigInt(row?.locked ?? 0)
}

/** The same of a chain, or of all: a row each. */
export async function openInterestOfChain(
  database: Database,
  { chainId }: { readonly chainId?: number },
): Promise<bigint> {
  const rows = await ask<{ locked: string }>(
    database,
    `select cast(locked_e6 as char) as locked from chain_holdings
      ${chainId === undefined ? '' : 'where chain_id = ?'}`,
    chainId === undefined ? [] : [chainId],
  )
  return rows.reduce((sum, { locked }) => sum + BigInt(locked), 0n)
}

/** How far a chain is in the database; undefined before it was first read. */
export async function indexedBlock(
  database: Database,
  { chainId }: { readonly chainId: number },
): Promise<number | undefined> {
  const [row] = await ask<{ indexed_block: number | string }>(
    database,
    'select indexed_block from chain_cursors where chain_id = ?',
    [chainId],
  )
  return row === undefined ? undefined : Number(row.indexed_block)
}

function positionRecord(row: Row): PositionRecord {
  return {
    marketId: hexOf(row.market_id) as MarketId,
    yesShares: BigInt(row.yes_shares),
    noShares: BigInt(row.no_shares),
    yesCost: BigInt(row.yes_cost),
    noCost: BigInt(row.no_cost),
  }
}

function ask<R>(
  database: Database,
  statement: string,
  values: readonly (number | Buffer)[],
): Promise<R[]> {
  return read(database, () => sqlConnection(database).execute<R[]>(statement, values, 'all'))
}
