/** Reads the indexer's tables: markets, their resolution, tokens and trades. */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { Category, Market, Matching } from '#domain/market.ts'
import type { Outcome } from '#domain/order.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOf } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { IS_NEWEST } from './delegates.ts'

export type ChainMarketRecord = Market & {
  readonly resolved: boolean
  readonly winningOutcome: Outcome | null
  readonly resolvedTx: string | null
  /**
   * True if the exchange withdrew the market after a reorg. A withdrawn market accepts no orders, even if the chain
   * contains the market again.
   */
  readonly withdrawn: boolean
}

type ChainMarketFilter = {
  readonly chainId?: number
  readonly category?: Category
  readonly resolved?: boolean
  /** True selects only quick markets, false only other markets. */
  readonly quick?: boolean
  /** Selects markets with these words in the question or description; case is ignored. */
  readonly search?: string
  /**
   * Current time in Unix seconds. If set, open markets come first, followed by markets that ended by `nowSec`, and each
   * of the two groups is sorted by age. If not set, all markets are sorted by age.
   */
  readonly nowSec?: number
  /** Selects only open or only ended markets; requires `nowSec`. */
  readonly status?: MarketStatus
  /** Last market of the previous page. `ended` is true if the page listed that market among the ended markets. */
  readonly after?: { readonly createdAt: number; readonly id: MarketId; readonly ended?: boolean }
  readonly limit: number
}

type MarketStatus = 'open' | 'ended'

type AssertionRecord = {
  readonly id: string
  readonly marketId: MarketId
  readonly proposer: Address
  readonly outcome: Outcome
  readonly bond: string
  readonly assertedAtSec: number
  readonly windowEndsAtSec: number
  readonly disputed: boolean
  /** Result of the assertion; null while it is open. */
  readonly endedAs: 'settled' | 'overturned' | 'abandoned' | null
}

type TokenBalance = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  /** Decimal text, because a balance can exceed the safe integers. */
  readonly balance: string
}

type Values = readonly (string | number | Buffer)[]
type Raw = Record<string, string | number | Uint8Array | null>

async function select(database: Database, sql: string, values: Values): Promise<Raw[]> {
  return read(database, () => sqlConnection(database).execute<Raw[]>(sql, [...values], 'all'))
}

/**
 * Returns a text that identifies the indexed state of all chains. The text changes whenever the indexer writes a change
 * for any chain.
 */
export async function chainVersion(database: Database): Promise<string> {
  const rows = await rowsOf<{ chain_id: number; indexed: string; updated_at_ms: number }>(
    database,
    `select chain_id, ${hexColumn('indexed_hash')} as indexed, updated_at_ms from chain_cursors
      order by chain_id`,
    [],
  )
  return rows.map((row) => `${row.chain_id} ${row.indexed} ${row.updated_at_ms}`).join()
}

/**
 * Lists the markets that match the filter, oldest first. With `nowSec` and without `status`, all open markets come
 * before the ended ones.
 */
export async function listChainMarkets(
  database: Database,
  filter: ChainMarketFilter,
): Promise<ChainMarketRecord[]> {
  const { status, nowSec, after, limit, ...rest } = filter
  if (nowSec === undefined || status !== undefined) return listByAge(database, filter)
  const behind = after === undefined ? {} : { after }
  if (after?.ended === true) {
    return listByAge(database, { ...rest, ...behind, nowSec, limit, status: 'ended' })
  }
  const open = await listByAge(database, { ...rest, ...behind, nowSec, limit, status: 'open' })
  if (open.length >= limit) return open
  const ended = { ...rest, nowSec, limit: limit - open.length, status: 'ended' } as const
  return [...open, ...(await listByAge(database, ended))]
}

async function listByAge(
  database: Database,
  filter: ChainMarketFilter,
): Promise<ChainMarketRecord[]> {
  // The index keeps quick markets and other markets apart, and sorts each group by age. Run one query per group. One
  // query for both groups would sort all markets.
  if (filter.quick === undefined) {
    const kinds = await Promise.all(
      [false, true].map((quick) => listByAge(database, { ...filter, quick })),
    )
    return kinds
      .flat()
      .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
      .slice(0, filter.limit)
  }
  const { where, values } = conditions(filter)
  const rows = await rowsOf<Raw>(
    database,
    `select ${MARKET_COLUMNS} from chain_markets where ${where}
      order by created_at_sec, market_id limit ?`,
    [...values, filter.limit],
  )
  return rows.map(marketRecord)
}

function conditions(filter: ChainMarketFilter): {
  where: string
  values: (string | number | Buffer)[]
} {
  const where = ['listed = 1']
  const values: (string | number | Buffer)[] = []
  const need = (text: string, ...given: (string | number | Buffer)[]): void => {
    where.push(text)
    values.push(...given)
  }
  if (filter.chainId !== undefined) need('chain_id = ?', filter.chainId)
  if (filter.category !== undefined) need('category = ?', filter.category)
  if (filter.resolved !== undefined) need('resolved = ?', filter.resolved ? 1 : 0)
  if (filter.quick !== undefined) need('quick = ?', filter.quick ? 1 : 0)
  if (filter.status === 'open') {
    need('resolved = 0 and withdrawn = 0 and expires_at_sec > ?', filter.nowSec ?? 0)
  }
  if (filter.status === 'ended') {
    need('(resolved = 1 or withdrawn = 1 or expires_at_sec <= ?)', filter.nowSec ?? 0)
  }
  if (filter.search !== undefined) {
    need('instr(searched, ?) > 0', filter.search.toLowerCase())
  }
  if (filter.after !== undefined) {
    const { createdAt, id } = filter.after
    // The condition `created_at_sec >= ?` uses an index. The other condition skips markets of the same second that were
    // on an earlier page.
    need(
      'created_at_sec >= ? and (created_at_sec > ? or market_id > ?)',
      createdAt,
      createdAt,
      bytesOf(id),
    )
  }
  return { where: where.join(' and '), values }
}

/** Returns one market of the chain; undefined if the market is unknown, or a reorg has removed it. */
export async function chainMarketById(
  database: Database,
  marketId: MarketId,
): Promise<ChainMarketRecord | undefined> {
  const [row] = await select(
    database,
    `select ${MARKET_COLUMNS} from chain_markets where listed = 1 and market_id = ?`,
    [bytesOf(marketId)],
  )
  return row === undefined ? undefined : marketRecord(row)
}

/** Returns the listed markets with these ids, in any order. */
export async function chainMarketsByIds(
  database: Database,
  marketIds: readonly MarketId[],
): Promise<ChainMarketRecord[]> {
  if (marketIds.length === 0) return []
  const rows = await select(
    database,
    `select ${MARKET_COLUMNS} from chain_markets
      where listed = 1 and market_id in (${marketIds.map(() => '?').join(', ')})`,
    marketIds.map(bytesOf),
  )
  return rows.map(marketRecord)
}

/** Returns the markets with this contract. Several chains may have a market at the same address. */
export async function chainMarketsByContract(
  database: Database,
  contractAddress: Address,
): Promise<ChainMarketRecord[]> {
  const rows = await select(
    database,
    `select ${MARKET_COLUMNS} from chain_markets where listed = 1 and contract_address = ? limit 100`,
    [bytesOf(contractAddress)],
  )
  return rows.map(marketRecord)
}

/** SQL: the order's nonce is below `before_nonce`. Both are text without leading zeros, so a shorter one is lower. */
const BELOW_EPOCH = `(length(o.nonce) < length(w.before_nonce)
  or (length(o.nonce) = length(w.before_nonce) and o.nonce < w.before_nonce))`

/**
 * Maximum number of pending trades whose orders a query checks for withdrawals on chain. The query takes the newest
 * trades.
 */
const PENDING_LOOKED_AT_MAX = 10_000

/**
 * Returns where the event logs of the markets differ from the chain. `open`: markets that can trade on chain but are in
 * no log. `close`: markets that must be closed in their log. Such a market is resolved on chain, but open or only
 * expired in its log. Or it is withdrawn on chain, but open in its log.
 */
export async function marketsToReconcile(
  database: Database,
  args: { readonly chainId: number; readonly nowSec: number; readonly limit: number },
): Promise<{
  open: Market[]
  close: { marketId: MarketId; reason: 'resolved' | 'withdrawn' }[]
  /**
   * Orders that must be cancelled, for one of two reasons. First, the trader withdrew the order on chain. This includes
   * filled orders of unsettled trades, because a failed trade returns quantity to the book. Second, the delegate who
   * signed the order is no longer allowed to sign it. The delegation expired, was revoked or was removed by a reorg. Or
   * the account excluded the market, or lowered the maximum order size below the size of the order.
   */
  cancel: { marketId: MarketId; trader: Address; orderHash: OrderHash }[]
}> {
  const limit = Math.floor(args.limit)
  const open = await select(
    database,
    `select ${MARKET_COLUMNS} from chain_markets c
      where chain_id = ? and listed = 1 and withdrawn = 0 and resolved = 0 and expires_at_sec > ?
        and not exists (select 1 from markets m where m.market_id = c.market_id)
      order by created_block limit ${limit}`,
    [args.chainId, args.nowSec],
  )
  const close = await select(
    database,
    `select c.market_id as market_id, c.resolved as resolved
      from chain_markets c join markets m on m.market_id = c.market_id
      where c.chain_id = ? and ((c.resolved = 1 and (m.close_reason is null or m.close_reason = 'expired'))
        or (c.withdrawn = 1 and m.close_reason is null))
      order by c.resolved_block desc limit ${limit}`,
    [args.chainId],
  )
  const cancel = await select(
    database,
    `select o.market_id as market_id, o.trader as trader, o.order_hash as order_hash
      from chain_withdrawn_orders w
      join orders o on o.order_hash = w.order_hash and o.trader = w.trader
      join markets m on m.market_id = o.market_id and m.close_reason is null
      where w.chain_id = ? and o.status = 'open' limit ${limit}`,
    [args.chainId],
  )
  const below = await select(
    database,
    `select o.market_id as market_id, o.trader as trader, o.order_hash as order_hash
      from chain_withdrawn_epochs w
      join orders o on o.trader = w.trader and o.chain_id = w.chain_id
      join markets m on m.market_id = o.market_id and m.close_reason is null
      where w.chain_id = ? and o.status = 'open' and ${BELOW_EPOCH} limit ${limit}`,
    [args.chainId],
  )
  const undelegated = await select(
    database,
    `select o.market_id as market_id, o.trader as trader, o.order_hash as order_hash
      from delegated_orders d
      join orders o on o.order_hash = d.order_hash
      join markets m on m.market_id = o.market_id and m.close_reason is null
      where d.chain_id = ? and o.status = 'open' and not exists (select 1 from chain_delegates c
        where c.chain_id = d.chain_id and c.account = d.trader and c.delegate = d.delegate
          and c.until_sec > ? and (c.max_order_size_e6 = 0 or d.size_e6 <= c.max_order_size_e6)
          and (c.markets = '' or instr(c.markets, lower(hex(o.market_id))) > 0)
          and ${IS_NEWEST}) limit ${limit}`,
    [args.chainId, args.nowSec],
  )
  // Look for filled orders in unsettled trades, too: if such a trade fails, its quantity returns to the book.
  const pending = (side: 'buy' | 'sell'): string =>
    `select * from (select ${side}_order_hash as order_hash from trades
      where pending = 1 and chain_id = ? order by matched_at_ms desc, seq desc, fill_index desc
      limit ${PENDING_LOOKED_AT_MAX}) ${side}s`
  const filled = await select(
    database,
    `select o.market_id as market_id, o.trader as trader, o.order_hash as order_hash
      from (${pending('buy')} union ${pending('sell')}) p
      join orders o on o.order_hash = p.order_hash
      where o.status = 'filled' and (exists (select 1 from chain_withdrawn_orders w
          where w.chain_id = o.chain_id and w.order_hash = o.order_hash and w.trader = o.trader)
        or exists (select 1 from chain_withdrawn_epochs w
          where w.chain_id = o.chain_id and w.trader = o.trader and ${BELOW_EPOCH}))
      limit ${limit}`,
    [args.chainId, args.chainId],
  )
  return {
    cancel: [...cancel, ...below, ...undelegated, ...filled].map((row) => ({
      marketId: hexOf(row.market_id as Uint8Array) as MarketId,
      trader: hexOf(row.trader as Uint8Array) as Address,
      orderHash: hexOf(row.order_hash as Uint8Array) as OrderHash,
    })),
    open: open.map(marketOf),
    close: close.map((row) => ({
      marketId: hexOf(row.market_id as Uint8Array) as MarketId,
      reason: Number(row.resolved) === 1 ? 'resolved' : 'withdrawn',
    })),
  }
}

/** Returns every assertion (an outcome proposed at the oracle) about a market, newest first. */
export async function assertionsOfMarket(
  database: Database,
  marketId: MarketId,
): Promise<AssertionRecord[]> {
  const rows = await select(
    database,
    `select *, cast(bond_e6 as char) as bond from chain_assertions where market_id = ?
      order by proposed_block desc, proposed_log_index desc limit 100`,
    [bytesOf(marketId)],
  )
  return rows.map(assertionRecord)
}

/** Returns open assertions of a chain whose time for disputes has ended, oldest first. */
export async function assertionsToSettle(
  database: Database,
  args: { readonly chainId: number; readonly endedBySec: number; readonly limit: number },
): Promise<AssertionRecord[]> {
  const rows = await select(
    database,
    `select *, cast(bond_e6 as char) as bond from chain_assertions
      where chain_id = ? and ended_as is null and window_ends_at_sec <= ?
      order by window_ends_at_sec limit ${Math.floor(args.limit)}`,
    [args.chainId, args.endedBySec],
  )
  return rows.map(assertionRecord)
}

/**
 * Returns resolved markets of a chain whose tokens cannot be redeemed yet. During the resolution, the market contract
 * could not report the payouts to the token contract. The report must be repeated.
 */
export async function marketsWithoutPayout(
  database: Database,
  args: { readonly chainId: number; readonly limit: number },
): Promise<ChainMarketRecord[]> {
  const rows = await select(
    database,
    `select ${MARKET_COLUMNS} from chain_markets
      where chain_id = ? and resolved = 1 and payouts_block is null and listed = 1
      limit ${Math.floor(args.limit)}`,
    [args.chainId],
  )
  return rows.map(marketRecord)
}

/** Returns a holder's balances of the outcome tokens of known markets. */
export async function tokenBalancesOf(
  database: Database,
  holder: Address,
  chainId: number,
): Promise<TokenBalance[]> {
  const rows = await select(
    database,
    `select o.market_id as market_id, o.outcome as outcome, cast(b.balance_e6 as char) as balance
      from chain_token_balances b
      join chain_outcomes o on o.chain_id = b.chain_id and o.position_id = b.position_id
      where b.holder = ? and b.chain_id = ? limit 10000`,
    [bytesOf(holder), chainId],
  )
  return rows.map((row) => ({
    marketId: hexOf(row.market_id as Uint8Array) as MarketId,
    outcome: Number(row.outcome) as Outcome,
    balance: String(row.balance),
  }))
}

/**
 * Returns how many outcome tokens a holder has on a chain, as decimal text. Does not count tokens of losing outcomes.
 */
export async function tokensHeldBy(
  database: Database,
  { holder, chainId }: { readonly holder: Address; readonly chainId: number },
): Promise<string> {
  const held = await tokenBalancesOf(database, holder, chainId)
  if (held.length === 0) return '0'
  const markets = [...new Set(held.map(({ marketId }) => marketId))]
  const over = await select(
    database,
    `select market_id, winning_outcome from chain_markets
      where winning_outcome is not null and market_id in (${markets.map(() => '?')})`,
    markets.map(bytesOf),
  )
  const winners = new Map(
    over.map((row) => [hexOf(row.market_id as Uint8Array), Number(row.winning_outcome)]),
  )
  let sum = 0n
  for (const { marketId, outcome, balance } of held) {
    if ((winners.get(marketId) ?? outcome) === outcome) sum += BigInt(balance)
  }
  return String(sum)
}

const MARKET_COLUMNS = `market_id, chain_id, contract_address, maker, question, description, category,
  expires_at_sec, created_at_sec, quick, resolved, winning_outcome, resolved_tx, withdrawn, matching`

function marketOf(row: Raw): Market {
  return {
    id: hexOf(row.market_id as Uint8Array) as MarketId,
    question: String(row.question),
    description: String(row.description),
    category: row.category as Category,
    contractAddress: hexOf(row.contract_address as Uint8Array) as Address,
    maker: hexOf(row.maker as Uint8Array) as Address,
    expiration: Number(row.expires_at_sec),
    chainId: Number(row.chain_id),
    createdAt: Number(row.created_at_sec),
    quick: Number(row.quick) === 1,
    ...(row.matching === null ? {} : { matching: row.matching as Matching }),
  }
}

function marketRecord(row: Raw): ChainMarketRecord {
  const { winning_outcome: winner = null, resolved_tx: tx = null } = row
  return {
    ...marketOf(row),
    resolved: Number(row.resolved) === 1,
    winningOutcome: winner === null ? null : (Number(winner) as Outcome),
    resolvedTx: tx === null ? null : hexOf(tx as Uint8Array),
    withdrawn: Number(row.withdrawn) === 1,
  }
}

function assertionRecord(row: Raw): AssertionRecord {
  return {
    id: hexOf(row.assertion_id as Uint8Array),
    marketId: hexOf(row.market_id as Uint8Array) as MarketId,
    proposer: hexOf(row.proposer as Uint8Array) as Address,
    outcome: Number(row.proposed_outcome) as Outcome,
    bond: String(row.bond),
    assertedAtSec: Number(row.asserted_at_sec),
    windowEndsAtSec: Number(row.window_ends_at_sec),
    disputed: row.disputed_block !== null,
    endedAs: row.ended_as as AssertionRecord['endedAs'],
  }
}
