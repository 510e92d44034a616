/**
 * Writes what the indexer takes from a chain. Each range of blocks is one transaction with the
 * cursor, which is moved only from where the range begins: neither a second writer nor a repetition
 * ever applies a range twice. Undoing blocks is one transaction as well, and leaves the tables as if
 * those blocks had never been.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type {
  BlockMark,
  ChainEvent,
  MarketCreated,
  ResolutionProposed,
  TokensMoved,
} from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { type MarketId, ZERO_ADDRESS } from '#domain/ids.ts'
import { CHAIN_MARKS_MAX } from '#domain/limits.ts'
import { type Database, transact } from './database.ts'
import { bytesOf, hexOf } from './hex.ts'
import { marketsMovedAbove, movePositions, refoldMarkets } from './positions-write.ts'

export type ChainClaim = {
  readonly chainId: number
  /** The addresses of the contracts, as one text: a database follows one deployment. */
  readonly deployment: string
  readonly startBlock: number
  /** The block before the first one that is read. */
  readonly anchor: BlockMark
  readonly atMs: number
}

/** How far the database is, and the newest blocks whose hashes it knows, the newest first. */
export type ChainProgress = { readonly indexed: BlockMark; readonly marks: readonly BlockMark[] }

export type ChainRange = {
  readonly chainId: number
  /** Where the cursor has to stand. */
  readonly after: BlockMark
  /** Where it stands afterwards: the last block of the range. */
  readonly upTo: BlockMark
  /** Blocks of the range whose hashes are worth keeping, `upTo` among them. */
  readonly marks: readonly BlockMark[]
  /** In the order of the chain. */
  readonly events: readonly ChainEvent[]
  /** Markets that a reorg removed at or below this block, and that have not come back, are given up. */
  readonly giveUpOrphansOf: number
  readonly atMs: number
}

/** `already` says that the range had been written before. */
export type ChainWritten = {
  readonly written: 'applied' | 'already'
  /** Markets that are given up: the chain does not have them any more. */
  readonly withdrawn: readonly MarketId[]
}

export type ChainRewind = {
  readonly chainId: number
  readonly from: BlockMark
  /** The last block that both chains have. */
  readonly to: BlockMark
  readonly atMs: number
}

export type ChainRewound = {
  readonly written: 'applied' | 'already'
  /** Markets that are not on the chain any more, for now. */
  readonly orphaned: readonly MarketId[]
  /** Markets of which a step of their resolution was undone. */
  readonly reverted: readonly MarketId[]
}

/** Claims the chain's place in the database, or finds how far it is. */
export async function claimChain(database: Database, claim: ChainClaim): Promise<ChainProgress> {
  const { chainId, deployment, anchor } = claim
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const known = await sql.all<{ deployment: string } & CursorRow>(
      'select deployment, indexed_block, indexed_hash from chain_cursors where chain_id = ?',
      [chainId],
    )
    if (known[0] === undefined) {
      await sql.insert('chain_cursors', [
        {
          chain_id: chainId,
          deployment,
          start_block: claim.startBlock,
          indexed_block: anchor.number,
          indexed_hash: bytesOf(anchor.hash),
          updated_at_ms: claim.atMs,
        },
      ])
      await insertMarks(sql, chainId, [anchor])
      return { indexed: anchor, marks: [anchor] }
    }
    if (known[0].deployment !== deployment) {
      throw new Fault(
        'STORE_FOREIGN_CHAIN',
        `the database follows other contracts of chain ${chainId} than the settings name`,
        { retryable: false },
      )
    }
    const marks = (
      await sql.all<{
        block_number: number | string
        block_hash: Uint8Array
        at_sec: number | string
      }>(
        `select block_number, block_hash, at_sec from chain_blocks where chain_id = ?
          order by block_number desc limit ${CHAIN_MARKS_MAX}`,
        [chainId],
      )
    ).map((row) => ({
      number: Number(row.block_number),
      hash: hexOf(row.block_hash),
      atSec: Number(row.at_sec),
    }))
    const indexed = marks[0]
    if (indexed === undefined || indexed.number !== Number(known[0].indexed_block)) {
      throw new Fault('STORE_INCONSISTENT', `chain ${chainId} has no mark where it stands`, {
        retryable: false,
      })
    }
    return { indexed, marks }
  })
}

/** Writes one range of blocks. */
export async function indexRange(database: Database, range: ChainRange): Promise<ChainWritten> {
  const { chainId, after, upTo, events } = range
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    if (!(await moveCursor(sql, chainId, { from: after, to: upTo, atMs: range.atMs }))) {
      return { written: 'already', withdrawn: [] }
    }
    await insertMarks(sql, chainId, range.marks)
    await sql.run(
      `delete from chain_blocks where chain_id = ? and block_number < ?
        and block_number <= (select oldest from (
          select block_number as oldest from chain_blocks where chain_id = ?
            order by block_number desc limit 1 offset ${CHAIN_MARKS_MAX}) as kept)`,
      [chainId, upTo.number, chainId],
    )
    for (const event of events) {
      if (event.type === 'MarketCreated') await createMarket(sql, chainId, event)
    }
    await insertRows(sql, chainId, events)
    for (const event of events) await applyStep(sql, chainId, event)
    await moveBalances(sql, chainId, events.filter(isMove), 1)
    await movePositions(sql, chainId, events)
    const withdrawn = await marketIds(
      sql,
      `select market_id from chain_markets
        where chain_id = ? and withdrawn = 0 and orphaned_block <= ?`,
      [chainId, range.giveUpOrphansOf],
    )
    await sql.run(
      `update chain_markets set withdrawn = 1
        where chain_id = ? and withdrawn = 0 and orphaned_block <= ?`,
      [chainId, range.giveUpOrphansOf],
    )
    return { written: 'applied', withdrawn }
  })
}

/** Undoes every block above `to`. */
export async function rewindChain(database: Database, rewind: ChainRewind): Promise<ChainRewound> {
  const { chainId, from, to } = rewind
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const above = [chainId, to.number] as const
    if (!(await moveCursor(sql, chainId, { from, to, atMs: rewind.atMs }))) {
      return { written: 'already', orphaned: [], reverted: [] }
    }
    const orphaned = await marketIds(
      sql,
      `select market_id from chain_markets
        where chain_id = ? and created_block > ? and orphaned_block is null`,
      above,
    )
    const reverted = await marketIds(
      sql,
      `select distinct market_id from chain_market_events
        where chain_id = ? and block_number > ? and event not in ('created', 'settled')`,
      above,
    )
    const moved = await marketsMovedAbove(sql, chainId, to.number)
    const moves = await sql.all<{
      position_id: Uint8Array
      sender: Uint8Array
      receiver: Uint8Array
      amount: string
    }>(
      `select position_id, sender, receiver, cast(amount_e6 as char) as amount
        from chain_token_moves where chain_id = ? and block_number > ?`,
      above,
    )
    await moveBalances(
      sql,
      chainId,
      moves.map((row) => ({
        positionId: hexOf(row.position_id),
        from: hexOf(row.sender),
        to: hexOf(row.receiver),
        amount: BigInt(row.amount),
        blockNumber: to.number,
      })),
      -1,
    )
    for (const table of [
      'chain_blocks',
      'chain_market_events',
      'chain_token_moves',
      'chain_conversions',
      'chain_trades',
      'chain_withdrawn_orders',
    ]) {
      await sql.run(`delete from ${table} where chain_id = ? and block_number > ?`, above)
    }
    await refoldMarkets(sql, chainId, moved)
    await sql.run('delete from chain_assertions where chain_id = ? and proposed_block > ?', above)
    await sql.run(
      `update chain_assertions set disputed_block = null, disputed_at_sec = null, disputed_tx = null
        where chain_id = ? and disputed_block > ?`,
      above,
    )
    await sql.run(
      `update chain_assertions
        set ended_as = null, ended_block = null, ended_at_sec = null, ended_tx = null
        where chain_id = ? and ended_block > ?`,
      above,
    )
    await sql.run(
      `update chain_markets set resolved = 0, winning_outcome = null, resolved_block = null,
          resolved_at_sec = null, resolved_tx = null, end_start_price_e8 = null,
          end_price_e8 = null, end_source = null
        where chain_id = ? and resolved_block > ?`,
      above,
    )
    await sql.run(
      `update chain_markets set payouts = null, payouts_block = null
        where chain_id = ? and payouts_block > ?`,
      above,
    )
    await sql.run(
      `delete from chain_outcomes where chain_id = ? and market_id in
        (select market_id from chain_markets where chain_id = ? and created_block > ?)`,
      [chainId, ...above],
    )
    // A market may come back in another block, so its row stays, unseen, until it is given up.
    await sql.run(
      `update chain_markets set orphaned_block = ?, listed = 0
        where chain_id = ? and created_block > ? and orphaned_block is null`,
      [from.number, ...above],
    )
    return { written: 'applied', orphaned, reverted }
  })
}

type CursorRow = { indexed_block: number | string; indexed_hash: Uint8Array }

/** Moves the cursor from one block to another; false when it was moved there before. */
async function moveCursor(
  sql: Statements,
  chainId: number,
  { from, to, atMs }: { readonly from: BlockMark; readonly to: BlockMark; readonly atMs: number },
): Promise<boolean> {
  const moved = await sql.run(
    `update chain_cursors set indexed_block = ?, indexed_hash = ?, updated_at_ms = ?
      where chain_id = ? and indexed_block = ? and indexed_hash = ?`,
    [to.number, bytesOf(to.hash), atMs, chainId, from.number, bytesOf(from.hash)],
  )
  if (moved === 1) return true
  const [row] = await sql.all<CursorRow>(
    'select indexed_block, indexed_hash from chain_cursors where chain_id = ?',
    [chainId],
  )
  const stands = row === undefined ? undefined : Number(row.indexed_block)
  if (row !== undefined && stands === to.number && hexOf(row.indexed_hash) === to.hash) return false
  throw new Fault(
    'STORE_CHAIN_MOVED',
    `chain ${chainId} stands at ${stands ?? 'nothing'}, not at ${from.number}`,
    { retryable: false },
  )
}

async function insertMarks(
  sql: Statements,
  chainId: number,
  marks: readonly BlockMark[],
): Promise<void> {
  await sql.insert(
    'chain_blocks',
    marks.map(({ number, hash, atSec }) => ({
      chain_id: chainId,
      block_number: number,
      block_hash: bytesOf(hash),
      at_sec: atSec,
    })),
  )
}

/** A market that was here before, and that a reorg moved to another block, keeps whether it was given up. */
async function createMarket(
  sql: Statements,
  chainId: number,
  { market, positions, quick, ...at }: MarketCreated,
): Promise<void> {
  const id = bytesOf(market.id)
  const [before] = await sql.all<{ withdrawn: number }>(
    'select withdrawn from chain_markets where market_id = ?',
    [id],
  )
  if (before !== undefined) await sql.run('delete from chain_markets where market_id = ?', [id])
  await sql.insert('chain_markets', [
    {
      market_id: id,
      chain_id: chainId,
      contract_address: bytesOf(market.contractAddress),
      maker: bytesOf(market.maker),
      question: market.question.toWellFormed(),
      description: market.description.toWellFormed(),
      searched: `${market.question}\n${market.description}`.toWellFormed().toLowerCase(),
      category: market.category,
      expires_at_sec: market.expiration,
      created_at_sec: market.createdAt,
      quick: market.quick ? 1 : 0,
      asset: quick?.asset.toWellFormed() ?? null,
      start_sec: quick?.startSec ?? null,
      start_price_e8: quick === undefined ? null : String(quick.startPrice),
      price_source: quick?.source.toWellFormed() ?? null,
      created_block: at.blockNumber,
      created_log_index: at.logIndex,
      created_tx: bytesOf(at.txHash),
      resolved: 0,
      withdrawn: Number(before?.withdrawn ?? 0),
      listed: 1,
    },
  ])
  await sql.run('delete from chain_outcomes where market_id = ?', [id])
  await sql.insert(
    'chain_outcomes',
    positions.map((positionId, outcome) => ({
      chain_id: chainId,
      position_id: bytesOf(positionId),
      market_id: id,
      outcome,
    })),
  )
}

type Row = Record<string, string | number | Buffer | null>

/** The rows that are only ever added. */
async function insertRows(
  sql: Statements,
  chainId: number,
  events: readonly ChainEvent[],
): Promise<void> {
  const tables = new Map<string, Row[]>()
  const add = (table: string, event: ChainEvent, row: Row): void => {
    const rows = tables.get(table) ?? []
    if (rows.length === 0) tables.set(table, rows)
    const { blockNumber, logIndex, txHash, atSec } = event
    rows.push({
      chain_id: chainId,
      block_number: blockNumber,
      log_index: logIndex,
      ...row,
      tx_hash: bytesOf(txHash),
      at_sec: atSec,
    })
  }
  for (const event of events) {
    const happened = happening(event)
    if (happened !== undefined) {
      add('chain_market_events', event, {
        market_id: bytesOf(happened.marketId),
        event: happened.event,
        facts: JSON.stringify(happened.facts),
      })
    }
    switch (event.type) {
      case 'TokensMoved':
        add('chain_token_moves', event, {
          part: event.part,
          position_id: bytesOf(event.positionId),
          sender: bytesOf(event.from),
          receiver: bytesOf(event.to),
          amount_e6: String(event.amount),
          kind: event.kind,
        })
        break
      case 'TokensConverted':
        add('chain_conversions', event, {
          kind: event.kind,
          holder: bytesOf(event.holder),
          market_id: bytesOf(event.marketId),
          amount_e6: String(event.amount),
          index_sets: event.indexSets.join(','),
        })
        break
      case 'TradeSettled':
        add('chain_trades', event, {
          trade_key: bytesOf(event.tradeKey),
          settled: 1,
          market_id: bytesOf(event.marketId),
          buyer: bytesOf(event.buyer),
          seller: bytesOf(event.seller),
          buy_order_hash: bytesOf(event.buyHash),
          sell_order_hash: bytesOf(event.sellHash),
          outcome: event.outcome,
          price_e6: event.price,
          size_e6: String(event.size),
          cost_e6: String(event.cost),
          fault: 'none',
          reason: '',
        })
        break
      case 'TradeRejected':
        add('chain_trades', event, {
          trade_key: bytesOf(event.tradeKey),
          settled: 0,
          market_id: null,
          buyer: null,
          seller: null,
          buy_order_hash: bytesOf(event.buyHash),
          sell_order_hash: bytesOf(event.sellHash),
          outcome: null,
          price_e6: null,
          size_e6: null,
          cost_e6: null,
          fault: event.fault,
          reason: event.reason,
        })
        break
      case 'OrderWithdrawn':
        add('chain_withdrawn_orders', event, {
          order_hash: bytesOf(event.orderHash),
          trader: bytesOf(event.trader),
          effective_at_sec: event.effectiveAtSec,
        })
        break
      default:
        break
    }
  }
  for (const [table, rows] of tables) await sql.insert(table, rows)
}

/** What a step of a market's life is called, and what is known with it. */
function happening(
  event: ChainEvent,
): { marketId: MarketId; event: string; facts: object } | undefined {
  switch (event.type) {
    case 'MarketCreated':
      return { marketId: event.market.id, event: 'created', facts: {} }
    case 'QuickMarketResolved':
      return {
        marketId: event.marketId,
        event: 'priced',
        facts: {
          winningOutcome: event.winningOutcome,
          startPrice: String(event.startPrice),
          endPrice: String(event.endPrice),
          source: event.source,
        },
      }
    case 'ResolutionProposed':
      return {
        marketId: event.marketId,
        event: 'proposed',
        facts: {
          assertionId: event.assertionId,
          proposer: event.proposer,
          asserter: event.asserter,
          outcome: event.outcome,
          bond: String(event.bond),
          assertedAtSec: event.assertedAtSec,
          windowEndsAtSec: event.windowEndsAtSec,
        },
      }
    case 'ResolutionDisputed':
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned':
      return {
        marketId: event.marketId,
        event: STEPS[event.type],
        facts: { assertionId: event.assertionId },
      }
    case 'MarketResolved':
      return {
        marketId: event.marketId,
        event: 'resolved',
        facts: { assertionId: event.assertionId, winningOutcome: event.winningOutcome },
      }
    case 'MarketSettled':
      return {
        marketId: event.marketId,
        event: 'settled',
        facts: { settler: event.settler, winningOutcome: event.winningOutcome },
      }
    default:
      return undefined
  }
}

const STEPS = {
  ResolutionDisputed: 'disputed',
  ResolutionOverturned: 'overturned',
  ResolutionAbandoned: 'abandoned',
} as const

/** What changes rows that are there: a step of a resolution. */
async function applyStep(sql: Statements, chainId: number, event: ChainEvent): Promise<void> {
  const { blockNumber, atSec, txHash } = event
  const when = [blockNumber, atSec, bytesOf(txHash)] as const
  const end = (as: string, assertionId: string) =>
    sql.run(
      `update chain_assertions set ended_as = ?, ended_block = ?, ended_at_sec = ?, ended_tx = ?
        where chain_id = ? and assertion_id = ?`,
      [as, ...when, chainId, bytesOf(assertionId)],
    )
  switch (event.type) {
    case 'ResolutionProposed':
      await propose(sql, chainId, event)
      break
    case 'ResolutionDisputed':
      await sql.run(
        `update chain_assertions set disputed_block = ?, disputed_at_sec = ?, disputed_tx = ?
          where chain_id = ? and assertion_id = ?`,
        [...when, chainId, bytesOf(event.assertionId)],
      )
      break
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned':
      await end(STEPS[event.type], event.assertionId)
      break
    case 'QuickMarketResolved':
      await sql.run(
        `update chain_markets set end_start_price_e8 = ?, end_price_e8 = ?, end_source = ?
          where market_id = ?`,
        [
          String(event.startPrice),
          String(event.endPrice),
          event.source.toWellFormed(),
          bytesOf(event.marketId),
        ],
      )
      break
    case 'MarketResolved':
      await sql.run(
        `update chain_markets set resolved = 1, winning_outcome = ?, resolved_block = ?,
          resolved_at_sec = ?, resolved_tx = ? where market_id = ?`,
        [event.winningOutcome, ...when, bytesOf(event.marketId)],
      )
      if (event.assertionId !== '') await end('settled', event.assertionId)
      break
    case 'ConditionResolved':
      await sql.run('update chain_markets set payouts = ?, payouts_block = ? where market_id = ?', [
        event.payouts.join(','),
        blockNumber,
        bytesOf(event.marketId),
      ])
      break
    default:
      break
  }
}

async function propose(sql: Statements, chainId: number, event: ResolutionProposed): Promise<void> {
  await sql.insert('chain_assertions', [
    {
      chain_id: chainId,
      assertion_id: bytesOf(event.assertionId),
      market_id: bytesOf(event.marketId),
      proposer: bytesOf(event.proposer),
      asserter: bytesOf(event.asserter),
      proposed_outcome: event.outcome,
      bond_e6: String(event.bond),
      asserted_at_sec: event.assertedAtSec,
      window_ends_at_sec: event.windowEndsAtSec,
      proposed_block: event.blockNumber,
      proposed_log_index: event.logIndex,
      proposed_tx: bytesOf(event.txHash),
    },
  ])
}

function isMove(event: ChainEvent): event is TokensMoved {
  return event.type === 'TokensMoved'
}

/** Adds the movements to the balances, or takes them back. */
async function moveBalances(
  sql: Statements,
  chainId: number,
  moves: readonly {
    positionId: string
    from: string
    to: string
    amount: bigint
    blockNumber: number
  }[],
  sign: 1 | -1,
): Promise<void> {
  const changes = new Map<
    string,
    { positionId: string; holder: string; delta: bigint; blockNumber: number }
  >()
  const change = (positionId: string, holder: string, delta: bigint, blockNumber: number): void => {
    if (holder === ZERO_ADDRESS) return
    const key = `${positionId}${holder}`
    const before = changes.get(key)?.delta ?? 0n
    changes.set(key, { positionId, holder, delta: before + delta, blockNumber })
  }
  for (const { positionId, from, to, amount, blockNumber } of moves) {
    change(positionId, from, sign === 1 ? -amount : amount, blockNumber)
    change(positionId, to, sign === 1 ? amount : -amount, blockNumber)
  }
  await sql.insert(
    'chain_token_balances',
    [...changes.values()].map(({ positionId, holder, delta, blockNumber }) => ({
      chain_id: chainId,
      position_id: bytesOf(positionId),
      holder: bytesOf(holder),
      balance_e6: String(delta),
      block_number: blockNumber,
    })),
    sql.isMysql
      ? ` on duplicate key update balance_e6 = balance_e6 + values(balance_e6),
          block_number = values(block_number)`
      : ` on conflict (chain_id, position_id, holder) do update set
          balance_e6 = balance_e6 + excluded.balance_e6, block_number = excluded.block_number`,
  )
}

async function marketIds(
  sql: Statements,
  query: string,
  values: readonly (string | number)[],
): Promise<MarketId[]> {
  const found = await sql.all<{ market_id: Uint8Array }>(query, values)
  return found.map((row) => hexOf(row.market_id) as MarketId)
}

export type Statements = {
  readonly isMysql: boolean
  run(sql: string, values: readonly (string | number | Buffer | null)[]): Promise<number>
  all<R>(sql: string, values: readonly (string | number | Buffer)[]): Promise<R[]>
  /** Many rows of the same columns; `tail` ends each statement. */
  insert(table: string, rows: readonly Row[], tail?: string): Promise<void>
}

/** Rows of one statement. */
const ROWS_MAX = 200

export function statements(
  database: Database,
  connection: AbstractSqlConnection,
  transaction: Transaction,
): Statements {
  const run: Statements['run'] = async (sql, values) =>
    (await connection.execute<QueryResult>(sql, [...values], 'run', transaction)).affectedRows
  return {
    isMysql: database.address.dialect === 'mysql',
    run,
    all: <R>(sql: string, values: readonly (string | number | Buffer)[]) =>
      connection.execute<R[]>(sql, [...values], 'all', transaction),
    async insert(table, rows, tail = '') {
      const names = Object.keys(rows[0] ?? {})
      const marks = `(${names.map(() => '?').join(', ')})`
      for (let start = 0; start < rows.length; start += ROWS_MAX) {
        const part = rows.slice(start, start + ROWS_MAX)
        await run(
          `insert into ${table} (${names.join(', ')}) values ${part.map(() => marks).join(', ')}${tail}`,
          part.flatMap((row) => names.map((name) => row[name] ?? null)),
        )
      }
    },
  }
}
