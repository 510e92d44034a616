/**
 * Writes the blocks that the indexer has read, in ranges. Each range is one transaction, with the new cursor and
 * everything derived from the events of its blocks. If the database refuses an event, the event is set aside (listed,
 * not applied), and the rest of the range is written. So no transaction on the chain can stop the indexer.
 */

import type { BlockMark, ChainEvent, SetAside, TradeOnChain } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHAIN_MARKS_MAX } from '#domain/limits.ts'
import { type Database, transact } from '../engine/database.ts'
import { type Statements, statements } from '../engine/statements.ts'
import { isMove, moveBalances } from './balances.ts'
import { insertMarks, moveCursor } from './cursor.ts'
import { joinEvent } from './event-groups.ts'
import { insertEventRows } from './event-rows.ts'
import { createMarket, marketIds } from './market-rows.ts'
import { type Move, makeCostOf } from './position-fold.ts'
import { movePositions } from './positions-write.ts'
import { applyStep } from './resolution-steps.ts'
import { insertSetAside, setAsideOf } from './set-aside.ts'
import { dropSyncsUpTo } from './sync-position.ts'

export type ChainRange = {
  readonly chainId: number
  /** Block at which the cursor must be before this write. */
  readonly after: BlockMark
  /** Last block of the range; the cursor moves here. */
  readonly upTo: BlockMark
  /** Blocks of the range whose hashes are kept, including `upTo`. */
  readonly marks: readonly BlockMark[]
  /** In chain order. */
  readonly events: readonly ChainEvent[]
  /** Events that the reader could not decode. */
  readonly setAside: readonly SetAside[]
  /**
   * This write withdraws a market if two conditions are true: a reorg removed the market when the indexer was at this
   * block number or a lower one, and the chain still does not contain the market.
   */
  readonly giveUpOrphansOf: number
  readonly atMs: number
}

/** `written` is `already` if an earlier call wrote this range. */
export type ChainWritten = {
  readonly written: 'applied' | 'already'
  /** Markets that are withdrawn because the chain no longer has them. */
  readonly withdrawn: readonly MarketId[]
  /** Events of the range that the reader or the database set aside. */
  readonly setAside: readonly SetAside[]
}

/** Writes one range of blocks. */
export async function indexRange(database: Database, range: ChainRange): Promise<ChainWritten> {
  try {
    return await writeRange(database, range, async (sql) => {
      await writeEvents(sql, range.chainId, range.events, costsOf(range.events))
      return []
    })
  } catch (error) {
    if (!isOfEvents(error)) throw error
    return writeRange(database, range, (_sql, within) => writeOneByOne(within, range))
  }
}

/**
 * Runs the transaction of a range. `write` applies the events of the range and returns the events that it set aside.
 */
async function writeRange(
  database: Database,
  range: ChainRange,
  write: (sql: Statements, within: Database) => Promise<readonly SetAside[]>,
): Promise<ChainWritten> {
  const { chainId, after, upTo } = range
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    if (!(await moveCursor(sql, chainId, { from: after, to: upTo, atMs: range.atMs }))) {
      const setAside = await setAsideOf(sql, chainId, { above: after.number, upTo: upTo.number })
      return { written: 'already', withdrawn: [], setAside }
    }
    await insertMarks(sql, chainId, range.marks)
    await sql.run(
      `delete from chain_blocks where chain_id = ? and block_number < ?
        and block_number <= (select oldest from (
          select block_number as oldest from chain_blocks where chain_id = ?
            order by block_number desc limit 1 offset ${CHAIN_MARKS_MAX}) as kept)`,
      [chainId, upTo.number, chainId],
    )
    const refused = await write(sql, { ...database, within: transaction })
    const setAside = [...range.setAside, ...refused]
    await insertSetAside(sql, chainId, setAside)
    await dropSyncsUpTo(sql, chainId, upTo.number)
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
    return { written: 'applied', withdrawn, setAside }
  })
}

async function writeEvents(
  sql: Statements,
  chainId: number,
  events: readonly ChainEvent[],
  costOf: (move: Move) => bigint,
): Promise<void> {
  for (const event of events) {
    if (event.type === 'MarketCreated') await createMarket(sql, chainId, event)
    if (event.type === 'EventMarketCreated') await joinEvent(sql, chainId, event)
  }
  await insertEventRows(sql, chainId, events)
  for (const event of events) await applyStep(sql, chainId, event)
  await moveBalances(sql, chainId, events.filter(isMove), 1)
  await movePositions(sql, chainId, events, costOf)
}

/** Writes each event in its own savepoint; refused events are set aside. */
async function writeOneByOne(
  within: Database,
  { chainId, events }: ChainRange,
): Promise<readonly SetAside[]> {
  const setAside: SetAside[] = []
  const costOf = costsOf(events)
  for (const log of byLog(events)) {
    try {
      await transact(within, (transaction, connection) =>
        writeEvents(statements(within, connection, transaction), chainId, log, costOf),
      )
    } catch (error) {
      const [event] = log
      if (event === undefined || !isOfEvents(error)) throw error
      const { blockNumber, logIndex, txHash, atSec, type } = event
      const why = error instanceof Error ? error.message : String(error)
      setAside.push({ blockNumber, logIndex, txHash, atSec, event: type, why })
    }
  }
  return setAside
}

function byLog(events: readonly ChainEvent[]): Iterable<readonly ChainEvent[]> {
  const logs = new Map<string, ChainEvent[]>()
  for (const event of events) {
    const place = `${event.blockNumber}/${event.logIndex}`
    const log = logs.get(place)
    if (log === undefined) logs.set(place, [event])
    else log.push(event)
  }
  return logs.values()
}

function costsOf(events: readonly ChainEvent[]): (move: Move) => bigint {
  return makeCostOf(events.filter((event): event is TradeOnChain => event.type === 'TradeSettled'))
}

/** Codes of faults that concern the whole database, not one event: writing the next event would fail, too. */
const OF_THE_DATABASE = new Set([
  'STORE_REFUSED',
  'STORE_CORRUPT',
  'STORE_FOREIGN_CHAIN',
  'STORE_INCONSISTENT',
  'STORE_CHAIN_MOVED',
])

/** Database messages for missing or read-only tables. */
const OF_THE_TABLES =
  /ER_NO_SUCH_TABLE|ER_BAD_FIELD_ERROR|no such (?:table|column)|has no column|readonly/

/** Returns whether an event may have caused the error. */
function isOfEvents(error: unknown): boolean {
  if (!(error instanceof Fault)) return true
  if (error.retryable || OF_THE_DATABASE.has(error.code)) return false
  return !OF_THE_TABLES.test(error.message)
}
