/**
 * Compares the projector's sums with the trades. The audit reads in one transaction, so it can run while the exchange
 * works.
 */

import type { MarketId } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { type ChainCount, recount, type Sql } from '../projection/recount.ts'
import { MINUTE_SEC, type Sum, sumOf } from '../projection/spans.ts'
import type { Tally } from '../projection/tally.ts'

export type Difference = {
  readonly what: string
  readonly kept: string
  readonly expected: string
}

type TradeAudit = {
  readonly markets: number
  readonly trades: number
  readonly candles: number
  readonly differences: readonly Difference[]
}

/** Maximum number of reported differences. */
const DIFFERENCES_MAX = 1_000

export async function auditTrades(database: Database): Promise<TradeAudit> {
  return transact(database, async (transaction, connection) => {
    const sql = { connection, transaction }
    const differences: Difference[] = []
    let markets = 0
    let candles = 0
    const compare: Compare = (what, kept, expected) => {
      if (kept === expected || differences.length >= DIFFERENCES_MAX) return
      differences.push({ what, kept, expected })
    }
    const chains = await recount(sql, async (marketId, tally) => {
      candles += tally.candles.size
      if (tally.markets.size > 0) markets += 1
      await compareMarket(sql, marketId, tally, compare)
    })
    let trades = 0
    for (const [chainId, chain] of chains) {
      trades += chain.trades
      await compareChain(sql, chainId, chain, compare)
    }
    // The comparisons above cover only markets with trades. Compare the numbers of rows too, to detect rows of other
    // markets.
    compare('rows of candles', await counted(sql, 'candles'), String(candles))
    compare('markets that have traded', await counted(sql, TRADED), String(markets))
    return { markets, trades, candles, differences }
  })
}

/** Selects markets with trades that count. A market whose trades have all failed keeps a row with zeros. */
const TRADED = 'market_stats where trades <> 0 or volume_whole * 1000000 + volume_millionths <> 0'

type Compare = (what: string, kept: string, expected: string) => void

type SumRow = { volume_whole: string; volume_millionths: string; trades: number | string }
const SUMS = `cast(volume_whole as char) as volume_whole,
  cast(volume_millionths as char) as volume_millionths, trades`

function described(volume: bigint, trades: number | string): string {
  return `${volume} in ${trades} trades`
}

function valueIn({ whole, millionths }: Sum): bigint {
  return sumOf(whole, millionths)
}

async function compareMarket(
  sql: Sql,
  marketId: MarketId,
  tally: Tally,
  compare: Compare,
): Promise<void> {
  const id = bytesOf(marketId)
  const [stats] = await select<SumRow>(sql, `${SUMS} from market_stats where market_id = ?`, [id])
  const expected = tally.markets.get(marketId)
  compare(
    `volume of ${marketId}`,
    stats === undefined ? described(0n, 0) : keptSum(stats),
    expected === undefined
      ? described(0n, 0)
      : described(valueIn(expected.volume), expected.trades),
  )
  type Row = SumRow & Record<string, number | string>
  const rows = await select<Row>(
    sql,
    `outcome, span_sec, start_sec, open_e6, high_e6, low_e6, close_e6, first_seq, first_fill,
      last_seq, last_fill, ${SUMS} from candles where market_id = ?`,
    [id],
  )
  const kept = new Map(
    rows.map((row) => [
      `${row.outcome}/${row.span_sec}/${row.start_sec}`,
      [row.open_e6, row.high_e6, row.low_e6, row.close_e6].join(' ') +
        ` from ${row.first_seq}-${row.first_fill} to ${row.last_seq}-${row.last_fill}, ` +
        keptSum(row),
    ]),
  )
  for (const candle of tally.candles.values()) {
    const key = `${candle.outcome}/${candle.spanSec}/${candle.startSec}`
    compare(
      `candle ${key} of ${marketId}`,
      kept.get(key) ?? 'none',
      [candle.open, candle.high, candle.low, candle.close].join(' ') +
        ` from ${candle.firstSeq}-${candle.firstFill} to ${candle.lastSeq}-${candle.lastFill}, ` +
        described(valueIn(candle.volume), candle.trades),
    )
    kept.delete(key)
  }
  for (const [key, row] of kept) compare(`candle ${key} of ${marketId}`, row, 'none')
}

async function compareChain(
  sql: Sql,
  chainId: number,
  chain: ChainCount,
  compare: Compare,
): Promise<void> {
  type Row = SumRow & {
    pending: string
    traders: string
    markets: string
    closed: string
    resolved: string
  }
  const rows = await select<Row>(
    sql,
    `${SUMS}, pending, traders, markets, markets_closed as closed, markets_resolved as resolved
      from chain_stats where chain_id = ?`,
    [chainId],
  )
  const sum = (read: (row: Row) => number | string) =>
    rows.reduce((before, row) => before + Number(read(row)), 0)
  const volume = (list: readonly SumRow[]) =>
    list.reduce((before, row) => before + sumOf(row.volume_whole, row.volume_millionths), 0n)
  const minutes = [...chain.spans.values()].filter(({ spanSec }) => spanSec === MINUTE_SEC)
  const expected = minutes.reduce((before, span) => before + valueIn(span.volume), 0n)
  const of = (what: string) => `${what} of chain ${chainId}`
  compare(
    of('volume'),
    described(
      volume(rows),
      sum((row) => row.trades),
    ),
    described(expected, chain.trades),
  )
  compare(of('traders'), String(sum((row) => row.traders)), String(chain.traders.size))
  compare(
    of('rows of traders'),
    await counted(sql, 'traders where chain_id = ?', [chainId]),
    String(chain.traders.size),
  )
  compare(of('pending trades'), String(sum((row) => row.pending)), String(chain.pending))
  compare(of('markets'), String(sum((row) => row.markets)), String(chain.markets))
  compare(of('closed markets'), String(sum((row) => row.closed)), String(chain.closed))
  compare(of('resolved markets'), String(sum((row) => row.resolved)), String(chain.resolved))

  const kept = new Map<string, { volume: bigint; trades: number }>()
  const spans = await select<SumRow & { span_sec: number; start_sec: number | string }>(
    sql,
    `span_sec, start_sec, ${SUMS} from chain_spans where chain_id = ?`,
    [chainId],
  )
  for (const row of spans) {
    const key = `${row.span_sec}/${row.start_sec}`
    const before = kept.get(key) ?? { volume: 0n, trades: 0 }
    kept.set(key, {
      volume: before.volume + volume([row]),
      trades: before.trades + Number(row.trades),
    })
  }
  for (const span of chain.spans.values()) {
    const key = `${span.spanSec}/${span.startSec}`
    const row = kept.get(key) ?? { volume: 0n, trades: 0 }
    compare(
      of(`span ${key}`),
      described(row.volume, row.trades),
      described(valueIn(span.volume), span.trades),
    )
    kept.delete(key)
  }
  for (const [key, row] of kept) {
    compare(of(`span ${key}`), described(row.volume, row.trades), described(0n, 0))
  }
}

function keptSum(row: SumRow): string {
  return described(sumOf(row.volume_whole, row.volume_millionths), row.trades)
}

async function counted(
  sql: Sql,
  from: string,
  values: readonly (number | Buffer)[] = [],
): Promise<string> {
  const [row] = await select<{ rows_found: number | string }>(
    sql,
    `count(*) as rows_found from ${from}`,
    values,
  )
  return String(row?.rows_found ?? 0)
}

function select<Row>(
  { connection, transaction }: Sql,
  statement: string,
  values: readonly (number | Buffer)[],
): Promise<Row[]> {
  return connection.execute<Row[]>(`select ${statement}`, values, 'all', transaction)
}
