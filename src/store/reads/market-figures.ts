/**
 * Reads the figures of many markets with one statement, so all figures of a market are from the same instant. The
 * statement finds each market by its key, and each figure by a few index lookups. So its cost hardly depends on how
 * long the markets have traded.
 */

import type { MarketId, Sequence } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { DAY_SEC, HOUR_SEC, MINUTE_SEC, sumOf } from '../projection/spans.ts'
import { daySpans } from './stats.ts'

type MarketFiguresRecord = {
  readonly marketId: MarketId
  readonly totalVolume: bigint
  readonly volume24h: bigint
  readonly trades24h: number
  /**
   * Price and sequence number of the newest trade of each outcome, YES first. Failed trades do not count. Without a
   * trade, both numbers are 0.
   */
  readonly lastPrices: readonly [number, number]
  readonly lastSeqs: readonly [Sequence, Sequence]
  /** Price of each outcome 24 hours ago, or of its first trade if that trade is newer. Null without trades. */
  readonly pricesBefore: readonly [number | null, number | null]
}

type Row = {
  readonly market_id: Buffer
  readonly total_whole: string
  readonly total_millionths: string
  readonly minutes_whole: string
  readonly minutes_millionths: string
  readonly minutes_trades: string
  readonly hours_whole: string
  readonly hours_millionths: string
  readonly hours_trades: string
  readonly last_yes: number | null
  readonly last_no: number | null
  readonly seq_yes: number | string | null
  readonly seq_no: number | string | null
  readonly before_yes: number | null
  readonly before_no: number | null
}

const NAMES = ['yes', 'no'] as const

/** The sums are read as text, because they may exceed the safe integers. */
const sum = (column: string, spanSec: number, range: string) =>
  `(select cast(coalesce(sum(${column}), 0) as char) from candles where market_id = s.market_id
    and outcome in (0, 1) and span_sec = ${spanSec} and ${range})`

const one = (column: string, outcome: number, rest: string) =>
  `(select ${column} from candles where market_id = s.market_id and outcome = ${outcome} and ${rest}
    limit 1)`

/** Returns the figures of the given markets that have trades. */
export async function marketFigures(
  database: Database,
  { marketIds, nowMs }: { readonly marketIds: readonly MarketId[]; readonly nowMs: number },
): Promise<MarketFiguresRecord[]> {
  if (marketIds.length === 0) return []
  const { fromSec, hourSec } = daySpans(nowMs)
  const minutes = `start_sec >= ${fromSec} and start_sec < ${hourSec}`
  const hours = `start_sec >= ${hourSec}`
  const columns = [
    's.market_id as market_id',
    'cast(s.volume_whole as char) as total_whole',
    'cast(s.volume_millionths as char) as total_millionths',
    `${sum('volume_whole', MINUTE_SEC, minutes)} as minutes_whole`,
    `${sum('volume_millionths', MINUTE_SEC, minutes)} as minutes_millionths`,
    `${sum('trades', MINUTE_SEC, minutes)} as minutes_trades`,
    `${sum('volume_whole', HOUR_SEC, hours)} as hours_whole`,
    `${sum('volume_millionths', HOUR_SEC, hours)} as hours_millionths`,
    `${sum('trades', HOUR_SEC, hours)} as hours_trades`,
    ...NAMES.flatMap((name, outcome) => {
      const newest = `span_sec = ${DAY_SEC} order by start_sec desc`
      const earlier = `span_sec = ${MINUTE_SEC} and start_sec < ${fromSec} order by start_sec desc`
      const first = `span_sec = ${MINUTE_SEC} and start_sec >= ${fromSec} order by start_sec`
      return [
        `${one('close_e6', outcome, newest)} as last_${name}`,
        `${one('last_seq', outcome, newest)} as seq_${name}`,
        `coalesce(${one('close_e6', outcome, earlier)}, ${one('open_e6', outcome, first)})
          as before_${name}`,
      ]
    }),
  ]
  const marks = marketIds.map(() => '?').join(', ')
  const rows = await read(database, () =>
    sqlConnection(database).execute<Row[]>(
      `select ${columns.join(', ')} from market_stats s where s.market_id in (${marks})`,
      marketIds.map(bytesOf),
      'all',
    ),
  )
  return rows.map(figuresRecord)
}

function figuresRecord(row: Row): MarketFiguresRecord {
  return {
    marketId: hexOf(row.market_id) as MarketId,
    totalVolume: sumOf(row.total_whole, row.total_millionths),
    volume24h:
      sumOf(row.minutes_whole, row.minutes_millionths) +
      sumOf(row.hours_whole, row.hours_millionths),
    trades24h: Number(row.minutes_trades) + Number(row.hours_trades),
    lastPrices: [row.last_yes ?? 0, row.last_no ?? 0],
    lastSeqs: [Number(row.seq_yes ?? 0), Number(row.seq_no ?? 0)],
    pricesBefore: [row.before_yes, row.before_no],
  }
}
