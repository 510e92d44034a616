/**
 * Reads the volumes and counts that the projector sums per market and per chain. The last 24 hours are the current
 * minute and the 1,440 minutes before it. Their sums are added up from sums per hour. Only the time before the first
 * full hour is added up from sums per minute.
 */

import type { MarketId } from '#domain/ids.ts'
import { OUTCOMES, type Outcome } from '#domain/order.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { DAY_SEC, HOUR_SEC, MINUTE_SEC, spanStartSec, sumOf } from '../projection/spans.ts'
import { openInterestOf, openInterestOfChain } from './positions.ts'

type MarketStats = {
  readonly totalVolume: bigint
  readonly volume24h: bigint
  readonly totalTrades: number
  readonly trades24h: number
  /** Price and outcome of the newest trade that has not failed; 0 and null if there is none. */
  readonly lastPrice: number
  readonly lastOutcome: Outcome | null
  /** Last prices of YES and of NO. */
  readonly lastPrices: readonly [number, number]
  /** Collateral behind the tokens of the market. */
  readonly openInterest: bigint
}

type ChainStats = {
  readonly totalVolume: bigint
  readonly volume24h: bigint
  readonly totalTrades: number
  readonly trades24h: number
  readonly totalTraders: number
  readonly totalMarkets: number
  readonly activeMarkets: number
  readonly resolvedMarkets: number
  readonly openInterest: bigint
}

type Summed = {
  readonly volume_whole: string
  readonly volume_millionths: string
  readonly trades: number | string
}

/** The sums are read as text, because they may exceed the safe integers. */
const SUMS = `cast(volume_whole as char) as volume_whole,
  cast(volume_millionths as char) as volume_millionths, trades`

export async function marketStats(
  database: Database,
  { marketId, nowMs }: { readonly marketId: MarketId; readonly nowMs: number },
): Promise<MarketStats> {
  const id = bytesOf(marketId)
  const ask = asker(database)
  const [total, yes, no] = await Promise.all([
    ask<Summed>(`select ${SUMS} from market_stats where market_id = ?`, [id]),
    ...OUTCOMES.map((outcome) => newestCandle(ask, id, outcome)),
  ])
  const ofBoth: Summed[] = []
  for (const outcome of OUTCOMES) {
    ofBoth.push(
      ...(await inDay(nowMs, (spanSec, fromSec, toSec) =>
        ask<Summed>(
          `select ${SUMS} from candles where market_id = ? and outcome = ? and span_sec = ?
            and start_sec >= ? and start_sec < ?`,
          [id, outcome, spanSec, fromSec, toSec],
        ),
      )),
    )
  }
  const all = added(total ?? [])
  const day = added(ofBoth)
  const last = [yes?.[0], no?.[0]]
  const newest =
    last[1] === undefined || (last[0] !== undefined && isLater(last[0], last[1])) ? 0 : 1
  return {
    totalVolume: all.volume,
    volume24h: day.volume,
    totalTrades: all.trades,
    trades24h: day.trades,
    lastPrice: last[newest]?.close_e6 ?? 0,
    lastOutcome: last[newest] === undefined ? null : newest,
    lastPrices: [last[0]?.close_e6 ?? 0, last[1]?.close_e6 ?? 0],
    openInterest: await openInterestOf(database, { marketId }),
  }
}

/** Returns the sums of one chain, or of all chains. */
export async function chainStats(
  database: Database,
  { chainId, nowMs }: { readonly chainId?: number; readonly nowMs: number },
): Promise<ChainStats> {
  const ask = asker(database)
  type Row = Summed & {
    readonly chain_id: number | string
    readonly traders: number | string
    readonly markets: number | string
    readonly markets_closed: number | string
    readonly markets_resolved: number | string
  }
  // The table has one row per chain and partition: a few dozen, whatever the number of trades.
  const rows = await ask<Row>(
    `select chain_id, ${SUMS}, traders, markets, markets_closed, markets_resolved from chain_stats
      ${chainId === undefined ? '' : 'where chain_id = ?'}`,
    chainId === undefined ? [] : [chainId],
  )
  const spans: Summed[] = []
  for (const chain of new Set(rows.map((row) => Number(row.chain_id)))) {
    spans.push(
      ...(await inDay(nowMs, (spanSec, fromSec, toSec) =>
        ask<Summed>(
          `select ${SUMS} from chain_spans where chain_id = ? and span_sec = ?
            and start_sec >= ? and start_sec < ?`,
          [chain, spanSec, fromSec, toSec],
        ),
      )),
    )
  }
  const total = added(rows)
  const day = added(spans)
  const sum = (read: (row: Row) => number | string) =>
    rows.reduce((before, row) => before + Number(read(row)), 0)
  const markets = sum((row) => row.markets)
  return {
    totalVolume: total.volume,
    volume24h: day.volume,
    totalTrades: total.trades,
    trades24h: day.trades,
    totalTraders: sum((row) => row.traders),
    totalMarkets: markets,
    activeMarkets: markets - sum((row) => row.markets_closed),
    resolvedMarkets: sum((row) => row.markets_resolved),
    openInterest: await openInterestOfChain(database, chainId === undefined ? {} : { chainId }),
  }
}

type Ask = <Row>(statement: string, values: readonly (number | Buffer)[]) => Promise<Row[]>

function asker(database: Database): Ask {
  return (statement, values) =>
    read(database, () => sqlConnection(database).execute(statement, values, 'all'))
}

type Newest = {
  readonly close_e6: number
  readonly last_seq: number | string
  readonly last_fill: number
}

function newestCandle(ask: Ask, id: Buffer, outcome: number): Promise<Newest[]> {
  return ask<Newest>(
    `select close_e6, last_seq, last_fill from candles
      where market_id = ? and outcome = ? and span_sec = ? order by start_sec desc limit 1`,
    [id, outcome, DAY_SEC],
  )
}

function isLater(a: Newest, b: Newest): boolean {
  return Number(a.last_seq) - Number(b.last_seq) > 0
}

/** Returns the start of the last 24 hours, and the start of the first full hour within them, in Unix seconds. */
export function daySpans(nowMs: number): { readonly fromSec: number; readonly hourSec: number } {
  const fromSec = spanStartSec(nowMs, MINUTE_SEC) - DAY_SEC
  return { fromSec, hourSec: Math.ceil(fromSec / HOUR_SEC) * HOUR_SEC }
}

/** Reads the sums of the last 24 hours: per minute until the first full hour begins, then per hour. */
async function inDay<Row>(
  nowMs: number,
  ask: (spanSec: number, fromSec: number, toSec: number) => Promise<Row[]>,
): Promise<Row[]> {
  const { fromSec, hourSec } = daySpans(nowMs)
  const endSec = Number.MAX_SAFE_INTEGER
  const [minutes, hours] = await Promise.all([
    ask(MINUTE_SEC, fromSec, hourSec),
    ask(HOUR_SEC, hourSec, endSec),
  ])
  return [...minutes, ...hours]
}

function added(rows: readonly Summed[]): { volume: bigint; trades: number } {
  let volume = 0n
  let trades = 0
  for (const row of rows) {
    volume += sumOf(row.volume_whole, row.volume_millionths)
    trades += Number(row.trades)
  }
  return { volume, trades }
}
