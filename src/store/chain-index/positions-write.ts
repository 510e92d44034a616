/**
 * Updates positions in the transaction that writes the chain's blocks. New blocks normally change only the positions
 * that their movements touch. In two cases, all positions of a market are computed again from its movements in the
 * tables. The first case is a new market, because its tokens may have moved before. The second case is a market whose
 * blocks are undone.
 */

import type {
  ChainEvent,
  ConversionKind,
  MoveKind,
  TokensConverted,
  TokensMoved,
} from '#domain/chain-event.ts'
import { type Address, type MarketId, ZERO_ADDRESS } from '#domain/ids.ts'
import { OUTCOMES, type Outcome, YES } from '#domain/order.ts'
import { partsOf } from '#domain/parts-of.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Row, Statements } from '../engine/statements.ts'
import {
  applyConversion,
  applyMove,
  correct,
  type Holding,
  type Move,
  makeCostOf,
  type SettledTrade,
  type Stake,
} from './position-fold.ts'
import { type ProfitChange, profitsOf, profitsOfMarket, writeProfits } from './profits-write.ts'

/** A holder's stake in a market, and its state in the tables. */
type Position = Stake & {
  readonly marketId: MarketId
  readonly holder: Address
  /** True if the position has a row. */
  isKept: boolean
  /** The stored profit of this position; `profit` is the new profit. */
  counted: bigint
}

/** Maximum number of keys per query. */
const KEYS_MAX = 100

/** Applies the events of a range to the positions, in chain order. The rows of the events are already in the tables. */
export async function movePositions(
  sql: Statements,
  chainId: number,
  events: readonly ChainEvent[],
  costOf: (move: Move) => bigint,
): Promise<void> {
  const created = new Set<MarketId>()
  for (const event of events) if (event.type === 'MarketCreated') created.add(event.market.id)
  for (const marketId of created) await foldMarket(sql, chainId, marketId)

  const moved = events.filter((event): event is TokensMoved => event.type === 'TokensMoved')
  const tokens = await marketsOfTokens(sql, chainId, moved)
  const moves: (Move & { marketId: MarketId })[] = []
  for (const { positionId, ...move } of moved) {
    const token = tokens.get(positionId)
    if (token !== undefined && !created.has(token.marketId)) moves.push({ ...move, ...token })
  }
  // Ignore collateral of conditions (questions) that are not markets of this exchange.
  const converted = events.filter(
    (event): event is TokensConverted =>
      event.type === 'TokensConverted' && !created.has(event.marketId),
  )
  const markets = await marketsAmong(sql, chainId, [
    ...new Set(converted.map(({ marketId }) => marketId)),
  ])
  const conversions = converted.filter(({ marketId }) => markets.has(marketId))
  await applyEvents(sql, chainId, { moves, conversions }, costOf)
  const locked = new Map<MarketId, bigint>()
  for (const { marketId, kind, amount } of conversions) {
    const before = locked.get(marketId) ?? 0n
    locked.set(marketId, before + (kind === 'split' ? amount : -amount))
  }
  for (const [marketId, delta] of locked) {
    if (delta !== 0n) await changeHoldings(sql, chainId, marketId, { holders: 0, locked: delta })
  }
}

/**
 * Computes the positions of markets again after their movements were undone. Must be called after the rows of these
 * movements were deleted.
 */
export async function refoldMarkets(
  sql: Statements,
  chainId: number,
  marketIds: Iterable<MarketId>,
): Promise<void> {
  for (const marketId of marketIds) await foldMarket(sql, chainId, marketId)
}

/** Returns the markets whose tokens or collateral moved after the given block. */
export async function marketsMovedAbove(
  sql: Statements,
  chainId: number,
  block: number,
): Promise<MarketId[]> {
  const found = await sql.all<{ market_id: Uint8Array }>(
    `select distinct o.market_id as market_id from chain_token_moves as m
        join chain_outcomes as o on o.chain_id = m.chain_id and o.position_id = m.position_id
        where m.chain_id = ? and m.block_number > ?
      union select market_id from chain_conversions where chain_id = ? and block_number > ?`,
    [chainId, block, chainId, block],
  )
  return found.map((row) => hexOf(row.market_id) as MarketId)
}

/** Overwrites a holder's shares of a market with those read from the chain at a block. */
export async function overwritePosition(
  sql: Statements,
  at: { chainId: number; marketId: MarketId; holder: Address; blockNumber: number },
  shares: readonly [yes: bigint, no: bigint],
): Promise<void> {
  const { chainId, marketId, holder } = at
  const positions = await positionsOf(sql, [[marketId, holder]])
  const position = positionIn(positions, marketId, holder)
  for (const outcome of OUTCOMES) correct(position.sides[outcome], shares[outcome] as bigint)
  await writePositions(sql, chainId, [position])
}

async function applyEvents(
  sql: Statements,
  chainId: number,
  events: {
    readonly moves: readonly (Move & { readonly marketId: MarketId })[]
    readonly conversions: readonly TokensConverted[]
  },
  costOf: (move: Move) => bigint,
): Promise<void> {
  const keys = new Map<string, readonly [MarketId, Address]>()
  const touch = (marketId: MarketId, holder: Address) =>
    keys.set(keyOf(marketId, holder), [marketId, holder])
  for (const { marketId, from, to } of events.moves) {
    touch(marketId, from)
    touch(marketId, to)
  }
  for (const { marketId, holder } of events.conversions) touch(marketId, holder)
  if (keys.size === 0) return
  const positions = await positionsOf(sql, [...keys.values()])
  for (const move of events.moves) {
    applyMove(move, costOf, (holder) => positionIn(positions, move.marketId, holder))
  }
  for (const conversion of events.conversions) {
    const { marketId, holder } = conversion
    if (holder !== ZERO_ADDRESS)
      applyConversion(conversion, positionIn(positions, marketId, holder))
  }
  await writePositions(sql, chainId, positions.values())
}

/** Computes all positions of a market from its first movement on, and replaces the stored ones. */
async function foldMarket(sql: Statements, chainId: number, marketId: MarketId): Promise<void> {
  const { positions, locked } = await foldedMarket(sql, chainId, marketId)
  await sql.run('delete from positions where market_id = ?', [bytesOf(marketId)])
  const [before] = await sql.all<{ holders: number | string; locked: string }>(
    'select holders, cast(locked_e6 as char) as locked from market_holdings where market_id = ?',
    [bytesOf(marketId)],
  )
  // Include the profits of holders who no longer have a position.
  for (const { holder, profit } of await profitsOfMarket(sql, marketId)) {
    positionIn(positions, marketId, holder).counted = profit
  }
  await writePositions(sql, chainId, positions.values())
  // `writePositions` has already counted the new positions; the counts of the old positions are subtracted here.
  await changeHoldings(sql, chainId, marketId, {
    holders: -Number(before?.holders ?? 0),
    locked: locked - BigInt(before?.locked ?? 0),
  })
}

/** Computes a market's positions from its movements; empty if the chain does not have the market. */
export async function foldedMarket(
  sql: Pick<Statements, 'all'>,
  chainId: number,
  marketId: MarketId,
): Promise<{ positions: Map<string, Position>; locked: bigint }> {
  const positions = new Map<string, Position>()
  const tokens = await sql.all<{ position_id: Uint8Array; outcome: number }>(
    'select position_id, outcome from chain_outcomes where market_id = ?',
    [bytesOf(marketId)],
  )
  if (tokens.length === 0) return { positions, locked: 0n }
  for (const { position_id, outcome } of tokens) {
    const moves = await movesOfToken(sql, chainId, position_id, outcome === YES ? 0 : 1)
    const costOf = makeCostOf(await tradesOfMoves(sql, moves))
    for (const move of moves) {
      applyMove(move, costOf, (holder) => positionIn(positions, marketId, holder))
    }
  }
  const conversions = await sql.all<{ holder: Uint8Array; kind: ConversionKind; amount: string }>(
    `select holder, kind, cast(amount_e6 as char) as amount from chain_conversions
      where market_id = ?`,
    [bytesOf(marketId)],
  )
  let locked = 0n
  for (const { holder, kind, ...row } of conversions) {
    const amount = BigInt(row.amount)
    locked += kind === 'split' ? amount : -amount
    const address = hexOf(holder) as Address
    if (address === ZERO_ADDRESS) continue
    applyConversion({ kind, amount }, positionIn(positions, marketId, address))
  }
  return { positions, locked }
}

async function movesOfToken(
  sql: Pick<Statements, 'all'>,
  chainId: number,
  positionId: Uint8Array,
  outcome: Outcome,
): Promise<Move[]> {
  type MoveRow = { sender: Uint8Array; receiver: Uint8Array; tx_hash: Uint8Array } & {
    amount: string
    kind: MoveKind
    log_index: number
  }
  const rows = await sql.all<MoveRow>(
    `select sender, receiver, cast(amount_e6 as char) as amount, kind, tx_hash, log_index
      from chain_token_moves where chain_id = ? and position_id = ?
      order by block_number, log_index, part`,
    [chainId, Buffer.from(positionId)],
  )
  return rows.map((row) => ({
    outcome,
    from: hexOf(row.sender) as Address,
    to: hexOf(row.receiver) as Address,
    amount: BigInt(row.amount),
    kind: row.kind,
    txHash: hexOf(row.tx_hash),
    logIndex: row.log_index,
  }))
}

async function tradesOfMoves(
  sql: Pick<Statements, 'all'>,
  moves: readonly Move[],
): Promise<SettledTrade[]> {
  const hashes = [
    ...new Set(moves.filter(({ kind }) => kind === 'trade').map(({ txHash }) => txHash)),
  ]
  const trades: SettledTrade[] = []
  for (const part of partsOf(hashes, KEYS_MAX)) {
    const rows = await sql.all<{
      tx_hash: Uint8Array
      log_index: number
      buyer: Uint8Array
      seller: Uint8Array
      outcome: number
      size: string
      cost: string
    }>(
      `select tx_hash, log_index, buyer, seller, outcome, cast(size_e6 as char) as size,
          cast(cost_e6 as char) as cost
        from chain_trades where settled = 1 and tx_hash in (${part.map(() => '?').join(', ')})`,
      part.map(bytesOf),
    )
    for (const row of rows) {
      trades.push({
        txHash: hexOf(row.tx_hash),
        logIndex: row.log_index,
        buyer: hexOf(row.buyer) as Address,
        seller: hexOf(row.seller) as Address,
        outcome: row.outcome === YES ? 0 : 1,
        size: BigInt(row.size),
        cost: BigInt(row.cost),
      })
    }
  }
  return trades
}

/** Returns the given condition ids that belong to markets of this exchange. */
async function marketsAmong(
  sql: Statements,
  chainId: number,
  ids: readonly MarketId[],
): Promise<Set<MarketId>> {
  const markets = new Set<MarketId>()
  for (const part of partsOf(ids, KEYS_MAX)) {
    const rows = await sql.all<{ market_id: Uint8Array }>(
      `select distinct market_id from chain_outcomes
        where chain_id = ? and market_id in (${part.map(() => '?').join(', ')})`,
      [chainId, ...part.map(bytesOf)],
    )
    for (const row of rows) markets.add(hexOf(row.market_id) as MarketId)
  }
  return markets
}

async function marketsOfTokens(
  sql: Statements,
  chainId: number,
  moved: readonly TokensMoved[],
): Promise<Map<string, { marketId: MarketId; outcome: Outcome }>> {
  const ids = [...new Set(moved.map(({ positionId }) => positionId))]
  const tokens = new Map<string, { marketId: MarketId; outcome: Outcome }>()
  for (const part of partsOf(ids, KEYS_MAX)) {
    const rows = await sql.all<{
      position_id: Uint8Array
      market_id: Uint8Array
      outcome: number
    }>(
      `select position_id, market_id, outcome from chain_outcomes
        where chain_id = ? and position_id in (${part.map(() => '?').join(', ')})`,
      [chainId, ...part.map(bytesOf)],
    )
    for (const row of rows) {
      tokens.set(hexOf(row.position_id), {
        marketId: hexOf(row.market_id) as MarketId,
        outcome: row.outcome === YES ? 0 : 1,
      })
    }
  }
  return tokens
}

function keyOf(marketId: MarketId, holder: Address): string {
  return `${marketId}/${holder}`
}

/** Returns a holder's position; adds an empty one if there is none. */
function positionIn(
  positions: Map<string, Position>,
  marketId: MarketId,
  holder: Address,
): Position {
  const key = keyOf(marketId, holder)
  let position = positions.get(key)
  if (position === undefined) {
    const sides = [noHolding(), noHolding()] as const
    position = { marketId, holder, sides, profit: 0n, isKept: false, counted: 0n }
    positions.set(key, position)
  }
  return position
}

function noHolding(): Holding {
  return { shares: 0n, cost: 0n }
}

/** Returns the given positions that have a row or a profit in the tables. */
export async function positionsOf(
  sql: Statements,
  keys: readonly (readonly [MarketId, Address])[],
): Promise<Map<string, Position>> {
  const positions = new Map<string, Position>()
  for (const part of partsOf(keys, KEYS_MAX)) {
    const rows = await sql.all<
      { market_id: Uint8Array; holder: Uint8Array } & Record<'yes' | 'no', string> &
        Record<'yes_cost' | 'no_cost', string>
    >(
      `select market_id, holder, cast(yes_shares_e6 as char) as yes, cast(no_shares_e6 as char) as no,
          cast(yes_cost_e6 as char) as yes_cost, cast(no_cost_e6 as char) as no_cost
        from positions where ${part.map(() => '(market_id = ? and holder = ?)').join(' or ')}`,
      part.flatMap(([marketId, holder]) => [bytesOf(marketId), bytesOf(holder)]),
    )
    for (const row of rows) {
      const marketId = hexOf(row.market_id) as MarketId
      const holder = hexOf(row.holder) as Address
      const { sides } = Object.assign(positionIn(positions, marketId, holder), { isKept: true })
      Object.assign(sides[0], { shares: BigInt(row.yes), cost: BigInt(row.yes_cost) })
      Object.assign(sides[1], { shares: BigInt(row.no), cost: BigInt(row.no_cost) })
    }
  }
  for (const { marketId, holder, profit } of await profitsOf(sql, keys)) {
    Object.assign(positionIn(positions, marketId, holder), { profit, counted: profit })
  }
  return positions
}

/** Writes positions and updates the number of holders. An empty position is deleted. */
async function writePositions(
  sql: Statements,
  chainId: number,
  positions: Iterable<Position>,
): Promise<void> {
  const profits: ProfitChange[] = []
  const kept: Record<string, string | number | Buffer>[] = []
  const holders = new Map<MarketId, number>()
  const count = (marketId: MarketId, by: number) =>
    holders.set(marketId, (holders.get(marketId) ?? 0) + by)
  for (const position of positions) {
    const { marketId, holder, sides, isKept } = position
    const [yes, no] = sides
    profits.push(position)
    if (yes.shares === 0n && no.shares === 0n) {
      if (!isKept) continue
      count(marketId, -1)
      await sql.run('delete from positions where market_id = ? and holder = ?', [
        bytesOf(marketId),
        bytesOf(holder),
      ])
      continue
    }
    if (!isKept) count(marketId, 1)
    kept.push({
      market_id: bytesOf(marketId),
      holder: bytesOf(holder),
      chain_id: chainId,
      yes_shares_e6: String(yes.shares),
      no_shares_e6: String(no.shares),
      total_shares_e6: sortable(yes.shares + no.shares),
      yes_cost_e6: String(yes.cost),
      no_cost_e6: String(no.cost),
    })
  }
  await sql.insert('positions', kept, overwriting(sql.isMysql))
  await writeProfits(sql, chainId, profits)
  for (const [marketId, by] of holders) {
    if (by !== 0) await changeHoldings(sql, chainId, marketId, { holders: by, locked: 0n })
  }
}

/**
 * Number of digits to which amounts are padded, so that their text sorts like the amounts. The sum of two uint256
 * values fits into this number of digits.
 */
const DIGITS = 78

function sortable(amount: bigint): string {
  return String(amount).padStart(DIGITS, '0')
}

const AMOUNTS = ['yes_shares_e6', 'no_shares_e6', 'total_shares_e6', 'yes_cost_e6', 'no_cost_e6']

function overwriting(isMysql: boolean): string {
  const set = AMOUNTS.map((name) =>
    isMysql ? `${name} = values(${name})` : `${name} = excluded.${name}`,
  ).join(', ')
  return isMysql
    ? ` on duplicate key update ${set}`
    : ` on conflict (market_id, holder) do update set ${set}`
}

/**
 * Changes the holdings of a market and of its chain. The collateral is added in code and not in SQL, because amounts
 * may have 256 bits and the databases have no such integers.
 */
async function changeHoldings(
  sql: Statements,
  chainId: number,
  marketId: MarketId,
  change: { readonly holders: number; readonly locked: bigint },
): Promise<void> {
  const add = async (table: string, key: string, id: Row): Promise<void> => {
    const [before] = await sql.all<{ locked: string }>(
      `select cast(locked_e6 as char) as locked from ${table} where ${key} = ?`,
      [id[key] as number | Buffer],
    )
    const locked = BigInt(before?.locked ?? 0) + change.locked
    await sql.insert(
      table,
      [{ ...id, holders: change.holders, locked_e6: String(locked) }],
      sql.isMysql
        ? ` on duplicate key update holders = holders + values(holders),
            locked_e6 = values(locked_e6)`
        : ` on conflict (${key}) do update set holders = holders + excluded.holders,
            locked_e6 = excluded.locked_e6`,
    )
  }
  await add('market_holdings', 'market_id', { market_id: bytesOf(marketId), chain_id: chainId })
  await add('chain_holdings', 'chain_id', { chain_id: chainId })
}
