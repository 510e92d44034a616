/** Reads positions, holders and open interest. */

import type { Address, MarketId } from '#domain/ids.ts'
import { POSITION_SYNCS_PER_HOLDER_MAX } from '#domain/limits.ts'
import { overlaid } from '../chain-index/sync-position.ts'
import type { Database } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOf, hexOfDigits } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'

type PositionRecord = {
  readonly marketId: MarketId
  readonly yesShares: bigint
  readonly noShares: bigint
  readonly yesCost: bigint
  readonly noCost: bigint
}

type UserPosition = PositionRecord & {
  readonly realisedProfit: bigint
  readonly question: string
  readonly contractAddress: Address
  readonly expiration: number
  readonly resolved: boolean
}

type Holder = PositionRecord & { readonly holder: Address }

type MarketHolders = { readonly top: readonly Holder[]; readonly total: number }

/** A market as a request path names it: by its id, or by the address of its contract. */
type MarketName =
  | { readonly marketId: MarketId }
  | { readonly contractAddress: Address; readonly chainId?: number | undefined }

const AMOUNTS = `cast(p.yes_shares_e6 as char) as yes_shares, cast(p.no_shares_e6 as char) as no_shares,
  cast(p.yes_cost_e6 as char) as yes_cost, cast(p.no_cost_e6 as char) as no_cost`

type Row = {
  readonly market: string
  readonly yes_shares: string
  readonly no_shares: string
  readonly yes_cost: string
  readonly no_cost: string
}

/**
 * Shares that were read from the chain at a block that the indexer has not reached. They are shown instead of the
 * shares in `positions`.
 */
type SyncRow = {
  readonly market: string
  readonly yes_shares: string
  readonly no_shares: string
}

/**
 * Returns a user's position in a market; undefined if the user has none. Reads `position_syncs` (shares read from the
 * chain ahead of the indexer) first, and `positions` second. A row of `position_syncs` is deleted only when `positions`
 * has caught up with it. So at least one of the two reads finds the newest shares.
 */
export async function positionOf(
  database: Database,
  { market, user }: { readonly market: MarketName; readonly user: Address },
): Promise<PositionRecord | undefined> {
  const [sync] = await rowsOf<SyncRow>(
    database,
    'marketId' in market
      ? `select ${hexColumn('market_id')} as market, yes_shares, no_shares from position_syncs
          where market_id = ? and holder = ?`
      : `select ${hexColumn('s.market_id')} as market, s.yes_shares, s.no_shares from chain_markets as m
          join position_syncs as s on s.market_id = m.market_id
          where m.contract_address = ? and s.holder = ?${onChain(market)} limit 1`,
    [bytesOf('marketId' in market ? market.marketId : market.contractAddress), bytesOf(user)],
  )
  const named = sync === undefined ? market : { marketId: hexOfDigits(sync.market) as MarketId }
  const [row] =
    'marketId' in named
      ? await rowsOf<Row>(
          database,
          `select ${hexColumn('p.market_id')} as market, ${AMOUNTS} from positions as p where p.market_id = ? and p.holder = ?`,
          [bytesOf(named.marketId), bytesOf(user)],
        )
      : await rowsOf<Row>(
          database,
          `select ${hexColumn('p.market_id')} as market, ${AMOUNTS} from chain_markets as m
            join positions as p on p.market_id = m.market_id
            where m.contract_address = ? and p.holder = ?${onChain(named)} limit 1`,
          [bytesOf(named.contractAddress), bytesOf(user)],
        )
  return shown(row === undefined ? undefined : positionRecord(row), sync)
}

/**
 * Returns the SQL condition that limits the contract to the given chain; empty if no chain is given. Several chains may
 * have a contract at the same address.
 */
function onChain(market: MarketName): string {
  if (!('chainId' in market) || market.chainId === undefined) return ''
  return ` and m.chain_id = ${BigInt(market.chainId)}`
}

/**
 * Returns the position to show; undefined if the holder has no shares. Shares that were read ahead of the indexer
 * replace the shares of the position.
 */
function shown<P extends PositionRecord>(
  position: P | undefined,
  sync: SyncRow | undefined,
): P | PositionRecord | undefined {
  if (sync === undefined) return position
  const read = { yesShares: BigInt(sync.yes_shares), noShares: BigInt(sync.no_shares) }
  if (read.yesShares === 0n && read.noShares === 0n) return undefined
  const marketId = hexOfDigits(sync.market) as MarketId
  return { ...position, marketId, ...overlaid(position, read) }
}

type Texts = {
  profit: string
  question: string
  contract: string
  expires_at_sec: number | string
  resolved: number
}

const WORDS = `m.question, ${hexColumn('m.contract_address')} as contract, m.expires_at_sec, m.resolved,
  coalesce(cast(r.profit_e6 as char), '0') as profit`

/** Left-joins the holder's profit in the market, because a profit of zero has no row. */
const profitsBeside = (table: string): string =>
  `left join position_profits as r on r.market_id = ${table}.market_id and r.holder = ${table}.holder`

/** Returns a page of a user's positions on a chain, sorted by market id. The page begins after the market `after`. */
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
  const place = [bytesOf(user), chainId, ...(after === undefined ? [] : [bytesOf(after)])]
  const behind = (table: string): string =>
    after === undefined ? '' : `and ${table}.market_id > ?`
  // Read `position_syncs` before `positions`. Its rows are deleted only when `positions` has caught up, so the newest
  // shares cannot be missed.
  const syncs = await rowsOf<SyncRow & Texts>(
    database,
    `select ${hexColumn('s.market_id')} as market, s.yes_shares, s.no_shares, ${WORDS}
      from position_syncs as s join chain_markets as m on m.market_id = s.market_id
        ${profitsBeside('s')}
      where s.holder = ? and s.chain_id = ? ${behind('s')} order by s.market_id limit ?`,
    [...place, POSITION_SYNCS_PER_HOLDER_MAX],
  )
  // Read one spare position for each row of `position_syncs`: if such a row has no shares, the position of its market
  // is left out of the page.
  const rows = await rowsOf<Row & Texts>(
    database,
    `select ${hexColumn('p.market_id')} as market, ${AMOUNTS}, ${WORDS}
      from positions as p join chain_markets as m on m.market_id = p.market_id
        ${profitsBeside('p')}
      where p.holder = ? and p.chain_id = ? ${behind('p')} order by p.market_id limit ?`,
    [...place, limit + syncs.length],
  )
  const positions = new Map(rows.map((row) => [hexOfDigits(row.market), userPosition(row)]))
  for (const sync of syncs) {
    const marketId = hexOfDigits(sync.market)
    const position = shown(positions.get(marketId), sync)
    if (position === undefined) positions.delete(marketId)
    else positions.set(marketId, { ...position, ...textsOf(sync) })
  }
  const last = rows.length < limit + syncs.length ? undefined : rows.at(-1)
  const end = last === undefined ? undefined : hexOfDigits(last.market)
  return [...positions.values()]
    .filter(({ marketId }) => end === undefined || marketId <= end)
    .sort((a, b) => (a.marketId < b.marketId ? -1 : 1))
    .slice(0, limit)
}

/** Returns a user's realised profit on a chain, including markets without a position. */
export async function realisedProfitOf(
  database: Database,
  { user, chainId }: { readonly user: Address; readonly chainId: number },
): Promise<bigint> {
  const [row] = await rowsOf<{ profit: string }>(
    database,
    `select cast(profit_e6 as char) as profit from holder_profits
      where chain_id = ? and holder = ?`,
    [chainId, bytesOf(user)],
  )
  return BigInt(row?.profit ?? 0)
}

function userPosition(row: Row & Texts): UserPosition {
  return { ...positionRecord(row), ...textsOf(row) }
}

function textsOf(row: Texts): Omit<UserPosition, keyof PositionRecord> {
  return {
    realisedProfit: BigInt(row.profit),
    question: row.question,
    contractAddress: hexOfDigits(row.contract) as Address,
    expiration: Number(row.expires_at_sec),
    resolved: Number(row.resolved) === 1,
  }
}

/**
 * Returns the largest holders of a market by their shares of both outcomes together, and the number of holders. All
 * figures are from the last indexed block. Does not use shares that were read ahead of the indexer, because they exist
 * for single holders only. With them, shares that moved between two holders would be counted twice or not at all.
 */
export async function holdersOf(
  database: Database,
  { marketId, limit }: { readonly marketId: MarketId; readonly limit: number },
): Promise<MarketHolders> {
  const id = bytesOf(marketId)
  const [top, counted] = await Promise.all([
    rowsOf<Row & { holder: Uint8Array }>(
      database,
      `select ${hexColumn('p.market_id')} as market, p.holder, ${AMOUNTS} from positions as p where p.market_id = ?
        order by p.total_shares_e6 desc, p.holder desc limit ?`,
      [id, limit],
    ),
    rowsOf<{ holders: number | string }>(
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

/** Returns the open interest of a market: the collateral behind its tokens. */
export async function openInterestOf(
  database: Database,
  { marketId }: { readonly marketId: MarketId },
): Promise<bigint> {
  const [row] = await rowsOf<{ locked: string }>(
    database,
    'select cast(locked_e6 as char) as locked from market_holdings where market_id = ?',
    [bytesOf(marketId)],
  )
  return BigInt(row?.locked ?? 0)
}

/** Returns the open interest of one chain, or the sum over all chains. */
export async function openInterestOfChain(
  database: Database,
  { chainId }: { readonly chainId?: number },
): Promise<bigint> {
  const rows = await rowsOf<{ locked: string }>(
    database,
    `select cast(locked_e6 as char) as locked from chain_holdings
      ${chainId === undefined ? '' : 'where chain_id = ?'}`,
    chainId === undefined ? [] : [chainId],
  )
  return rows.reduce((sum, { locked }) => sum + BigInt(locked), 0n)
}

/** Returns the last indexed block of a chain; undefined before the first block is indexed. */
export async function indexedBlock(
  database: Database,
  { chainId }: { readonly chainId: number },
): Promise<number | undefined> {
  const [row] = await rowsOf<{ indexed_block: number | string }>(
    database,
    'select indexed_block from chain_cursors where chain_id = ?',
    [chainId],
  )
  return row === undefined ? undefined : Number(row.indexed_block)
}

function positionRecord(row: Row): PositionRecord {
  return {
    marketId: hexOfDigits(row.market) as MarketId,
    yesShares: BigInt(row.yes_shares),
    noShares: BigInt(row.no_shares),
    yesCost: BigInt(row.yes_cost),
    noCost: BigInt(row.no_cost),
  }
}
