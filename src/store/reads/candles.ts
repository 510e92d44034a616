/**
 * Reads candles. Candles of minutes, hours and days are stored. Candles of any other interval are combined from the
 * longest stored interval that divides it.
 */

import type { MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { SPANS_SEC, sumOf } from '../projection/spans.ts'

type CandleRecord = {
  readonly startSec: number
  readonly open: number
  readonly high: number
  readonly low: number
  readonly close: number
  readonly volume: bigint
  readonly trades: number
}

type CandleFilter = {
  readonly marketId: MarketId
  readonly outcome: Outcome
  /** A multiple of a stored span. */
  readonly intervalSec: number
  /** Start of the first and of the last candle, both inclusive, both multiples of the interval. */
  readonly fromSec: number
  readonly toSec: number
}

type Row = {
  readonly start_sec: number | string
  readonly open_e6: number
  readonly high_e6: number
  readonly low_e6: number
  readonly close_e6: number
  readonly volume_whole: string
  readonly volume_millionths: string
  readonly trades: number | string
}

/** Returns the candles with trades, oldest first. */
export async function candles(database: Database, filter: CandleFilter): Promise<CandleRecord[]> {
  const { marketId, outcome, intervalSec, fromSec, toSec } = filter
  const spanSec = SPANS_SEC.findLast((span) => intervalSec % span === 0) ?? SPANS_SEC[0]
  const rows = await read(database, () =>
    sqlConnection(database).execute<Row[]>(
      `select start_sec, open_e6, high_e6, low_e6, close_e6, cast(volume_whole as char) as volume_whole,
          cast(volume_millionths as char) as volume_millionths, trades
        from candles where market_id = ? and outcome = ? and span_sec = ?
          and start_sec >= ? and start_sec < ? order by start_sec`,
      [bytesOf(marketId), outcome, spanSec, fromSec, toSec + intervalSec],
      'all',
    ),
  )
  const found: CandleRecord[] = []
  for (const row of rows) {
    const next = candleRecord(row, intervalSec)
    const before = found.at(-1)
    if (before?.startSec === next.startSec) found[found.length - 1] = joined(before, next)
    else found.push(next)
  }
  return found
}

function candleRecord(row: Row, intervalSec: number): CandleRecord {
  const startSec = Number(row.start_sec)
  return {
    startSec: startSec - (startSec % intervalSec),
    open: row.open_e6,
    high: row.high_e6,
    low: row.low_e6,
    close: row.close_e6,
    volume: sumOf(row.volume_whole, row.volume_millionths),
    trades: Number(row.trades),
  }
}

function joined(earlier: CandleRecord, later: CandleRecord): CandleRecord {
  return {
    startSec: earlier.startSec,
    open: earlier.open,
    high: Math.max(earlier.high, later.high),
    low: Math.min(earlier.low, later.low),
    close: later.close,
    volume: earlier.volume + later.volume,
    trades: earlier.trades + later.trades,
  }
}
