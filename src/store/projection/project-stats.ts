/**
 * Updates the sums for reads in the transaction that writes the trades: volumes and counts of markets and
 * chains, candles by minute, hour and day, and traders.
 *
 * A trade counts from its match until it fails. Then its amounts are subtracted. If the failed trade was the
 * first, last, highest or lowest of its minute, the candle of that minute is computed again from the
 * remaining trades. The candle of its hour is then computed again from the minutes, and the candle of its day
 * from the hours. So no computation reads more than a minute of trades.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { type Address, type MarketId, type TradeId, tradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { TradeStatus } from '#domain/trade.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { BulkWriter } from './bulk-writer.ts'
import type { CollapsedBatch } from './collapse.ts'
import { isPending, tradeKey, type Value } from './columns.ts'
import type { MarketChange } from './rows.ts'
import { addTo, DAY_SEC, HOUR_SEC, MINUTE_SEC, noSum, type Sum, spanStartSec } from './spans.ts'
import {
  type CountedTrade,
  candleKey,
  candleValues,
  count,
  countPending,
  marketStatsValues,
  newTally,
  spanValues,
  type Tally,
  uncount,
} from './tally.ts'

type Sql = { readonly connection: AbstractSqlConnection; readonly transaction: Transaction }

/** The changes that a batch makes to a chain's numbers of markets: all, closed and resolved. */
export type MarketCounts = { markets: number; closed: number; resolved: number }

/**
 * Returns the changes that a batch makes to the sums. Must be called before the batch is written, because it
 * reads the stored states of changed trades: a trade that had already failed is not subtracted again.
 */
export async function tallyBatch(
  writer: BulkWriter,
  collapsed: CollapsedBatch,
  chainOf: (marketId: MarketId) => number,
): Promise<Tally> {
  const tally = newTally()
  for (const trade of collapsed.trades) {
    const { status } = trade.state
    if (isPending(status)) countPending(tally, chainOf(trade.marketId), 1)
    if (status === 'failed') continue
    const cost = costCeil(trade.price, trade.size)
    count(tally, { ...trade, chainId: chainOf(trade.marketId), cost })
  }
  if (collapsed.tradeChanges.length === 0) return tally
  const becomes = new Map<TradeId, TradeStatus>()
  const keys = collapsed.tradeChanges.map((change): Value[] => {
    becomes.set(change.tradeId, change.status)
    const { marketId, sequence, fillIndex } = tradeKey(change.tradeId)
    return [marketId, sequence, fillIndex]
  })
  for (const row of await writer.tradesOf(keys)) {
    const marketId = hexOf(row.market_id) as MarketId
    const chainId = Number(row.chain_id)
    const status = becomes.get(tradeId(marketId, Number(row.seq), row.fill_index)) ?? row.status
    const decided = Number(isPending(status)) - Number(isPending(row.status))
    if (decided !== 0) countPending(tally, chainId, decided)
    if (status !== 'failed' || row.status === 'failed') continue
    uncount(tally, {
      marketId,
      chainId,
      seq: Number(row.seq),
      fillIndex: row.fill_index,
      outcome: row.outcome,
      price: row.price_e6,
      cost: Number(row.cost_e6),
      matchedAtMs: Number(row.matched_at_ms),
    })
  }
  return tally
}

/** The sums that a batch adds, and the partition of the batch. */
type BatchSums = {
  readonly partition: number
  readonly tally: Tally
  readonly traders: readonly (readonly [chainId: number, trader: Address])[]
  readonly marketCounts: ReadonlyMap<number, MarketCounts>
}

/** Writes the sums. Must be called after the trades were written with their new states. */
export async function writeTally(sql: Sql, writer: BulkWriter, sums: BatchSums): Promise<void> {
  const { partition, tally } = sums
  await writer.addMarketStats(
    [...tally.markets].map(([marketId, delta]) => marketStatsValues(marketId, delta)),
  )
  await writer.addCandles([...tally.candles.values()].map(candleValues))
  await takeFailedFromCandles(sql, tally.failed)
  await writer.addChainSpans([...tally.spans.values()].map((delta) => spanValues(delta, partition)))
  await writeChainStats(writer, sums)
}

async function writeChainStats(
  writer: BulkWriter,
  { partition, tally, traders, marketCounts }: BatchSums,
): Promise<void> {
  const chains = new Map<number, { volume: Sum; trades: number; traders: number }>()
  const chain = (chainId: number) => {
    let known = chains.get(chainId)
    if (known === undefined) {
      known = { volume: noSum(), trades: 0, traders: 0 }
      chains.set(chainId, known)
    }
    return known
  }
  for (const { chainId, volume, trades } of tally.markets.values()) {
    const sums = chain(chainId)
    sums.volume.whole += volume.whole
    sums.volume.millionths += volume.millionths
    sums.trades += trades
  }
  for (const chainId of [...marketCounts.keys(), ...tally.pending.keys()]) chain(chainId)
  // The traders are sorted, so that two partitions that insert the same traders at the same time do not deadlock.
  const byChain = Map.groupBy(traders, ([chainId]) => chainId)
  for (const chainId of [...byChain.keys()].sort((a, b) => a - b)) {
    const addresses = (byChain.get(chainId) ?? []).map(([, trader]) => trader).sort()
    chain(chainId).traders = await writer.addTraders(
      addresses.map((trader) => [chainId, trader] as Value[]),
    )
  }
  await writer.addChainStats(
    [...chains].map(([chainId, { volume, trades, traders: fresh }]) => {
      const { markets, closed, resolved } = marketCounts.get(chainId) ?? NO_MARKETS
      const pending = tally.pending.get(chainId) ?? 0
      const sums = [volume.whole, volume.millionths, trades, pending, fresh]
      return [chainId, partition, ...sums, markets, closed, resolved]
    }),
  )
}

const NO_MARKETS: MarketCounts = { markets: 0, closed: 0, resolved: 0 }

/** Counts a closing of a market. `before` is the reason of an earlier closing; null if the market was open. */
export function countClosing(
  counts: MarketCounts,
  before: string | null,
  { closed }: MarketChange,
): void {
  if (before === null) counts.closed += 1
  if (closed === 'resolved' && before !== 'resolved') counts.resolved += 1
  if (closed !== 'resolved' && before === 'resolved') counts.resolved -= 1
}

type CandleId = {
  readonly marketId: MarketId
  readonly outcome: number
  readonly startSec: number
}

type CandleRow = {
  readonly open_e6: number
  readonly high_e6: number
  readonly low_e6: number
  readonly close_e6: number
  readonly trades: number | string
  readonly first_seq: number | string
  readonly first_fill: number
  readonly last_seq: number | string
  readonly last_fill: number
}

const OF_CANDLE = 'market_id = ? and outcome = ? and span_sec = ? and start_sec = ?'

async function takeFailedFromCandles(sql: Sql, failed: readonly CountedTrade[]): Promise<void> {
  if (failed.length === 0) return
  const minutes = Map.groupBy(failed, ({ marketId, outcome, matchedAtMs }) =>
    candleKey(marketId, outcome, MINUTE_SEC, spanStartSec(matchedAtMs, MINUTE_SEC)),
  )
  for (const trades of minutes.values()) await takeFromMinute(sql, trades)
  await followFrom(sql, failed, MINUTE_SEC, HOUR_SEC)
  await followFrom(sql, failed, HOUR_SEC, DAY_SEC)
}

/** Removes failed trades of one minute from its candle. */
async function takeFromMinute(sql: Sql, failed: readonly CountedTrade[]): Promise<void> {
  const { marketId, outcome, matchedAtMs } = failed[0] as CountedTrade
  const key = [bytesOf(marketId), outcome, MINUTE_SEC, spanStartSec(matchedAtMs, MINUTE_SEC)]
  const [candle] = await select<CandleRow>(sql, `select * from candles where ${OF_CANDLE}`, key)
  if (candle === undefined) return
  if (Number(candle.trades) <= failed.length) {
    await run(sql, `delete from candles where ${OF_CANDLE}`, key)
    return
  }
  const volume = noSum()
  for (const { cost } of failed) addTo(volume, cost)
  await run(
    sql,
    `update candles set trades = trades - ?, volume_whole = volume_whole - ?,
        volume_millionths = volume_millionths - ? where ${OF_CANDLE}`,
    [failed.length, volume.whole, volume.millionths, ...key],
  )
  if (failed.some((trade) => shapes(candle, trade))) {
    await reshapeMinute(sql, { marketId, outcome }, candle, key)
  }
}

/** Returns whether the prices of the candle may change when this trade is removed. */
function shapes(candle: CandleRow, { price, seq, fillIndex }: CountedTrade): boolean {
  if (price === candle.high_e6 || price === candle.low_e6) return true
  const isFirst = seq === Number(candle.first_seq) && fillIndex === candle.first_fill
  const isLast = seq === Number(candle.last_seq) && fillIndex === candle.last_fill
  return isFirst || isLast
}

async function reshapeMinute(
  sql: Sql,
  { marketId, outcome }: { readonly marketId: MarketId; readonly outcome: number },
  candle: CandleRow,
  key: readonly (number | Buffer)[],
): Promise<void> {
  // Within a market, later trades have higher sequence numbers. So the trades of one minute are those in a range of
  // sequence numbers.
  const counted = `from trades where market_id = ? and seq between ? and ? and outcome = ?
    and failed_at_ms is null`
  const range = [bytesOf(marketId), Number(candle.first_seq), Number(candle.last_seq), outcome]
  type Edge = { seq: number | string; fill_index: number; price_e6: number }
  const edge = (way: 'asc' | 'desc') =>
    select<Edge>(
      sql,
      `select seq, fill_index, price_e6 ${counted}
        order by market_id ${way}, seq ${way}, fill_index ${way} limit 1`,
      range,
    )
  const [first] = await edge('asc')
  const [last] = await edge('desc')
  const [bounds] = await select<{ high: number; low: number }>(
    sql,
    `select max(price_e6) as high, min(price_e6) as low ${counted}`,
    range,
  )
  if (first === undefined || last === undefined || bounds === undefined) return
  await run(
    sql,
    `update candles set open_e6 = ?, high_e6 = ?, low_e6 = ?, close_e6 = ?, first_seq = ?,
        first_fill = ?, last_seq = ?, last_fill = ? where ${OF_CANDLE}`,
    [
      first.price_e6,
      bounds.high,
      bounds.low,
      last.price_e6,
      Number(first.seq),
      first.fill_index,
      Number(last.seq),
      last.fill_index,
      ...key,
    ],
  )
}

/** Recomputes each longer candle that contained a failed trade from its shorter candles. */
async function followFrom(
  sql: Sql,
  failed: readonly CountedTrade[],
  shorterSec: number,
  longerSec: number,
): Promise<void> {
  const touched = new Map<string, CandleId>()
  for (const { marketId, outcome, matchedAtMs } of failed) {
    const startSec = spanStartSec(matchedAtMs, longerSec)
    touched.set(candleKey(marketId, outcome, longerSec, startSec), { marketId, outcome, startSec })
  }
  for (const { marketId, outcome, startSec } of touched.values()) {
    const parts = await select<CandleRow & { volume_whole: string; volume_millionths: string }>(
      sql,
      `select open_e6, high_e6, low_e6, close_e6, trades, first_seq, first_fill, last_seq, last_fill,
          volume_whole, volume_millionths
        from candles where market_id = ? and outcome = ? and span_sec = ?
          and start_sec >= ? and start_sec < ? order by start_sec`,
      [bytesOf(marketId), outcome, shorterSec, startSec, startSec + longerSec],
    )
    const key = [bytesOf(marketId), outcome, longerSec, startSec]
    const [first] = parts
    const last = parts.at(-1)
    if (first === undefined || last === undefined) {
      await run(sql, `delete from candles where ${OF_CANDLE}`, key)
      continue
    }
    const total = (read: (part: (typeof parts)[number]) => number | string) =>
      parts.reduce((sum, part) => sum + Number(read(part)), 0)
    await run(
      sql,
      `update candles set open_e6 = ?, high_e6 = ?, low_e6 = ?, close_e6 = ?, trades = ?,
          volume_whole = ?, volume_millionths = ?, first_seq = ?, first_fill = ?, last_seq = ?,
          last_fill = ? where ${OF_CANDLE}`,
      [
        first.open_e6,
        Math.max(...parts.map((part) => part.high_e6)),
        Math.min(...parts.map((part) => part.low_e6)),
        last.close_e6,
        total((part) => part.trades),
        total((part) => part.volume_whole),
        total((part) => part.volume_millionths),
        Number(first.first_seq),
        first.first_fill,
        Number(last.last_seq),
        last.last_fill,
        ...key,
      ],
    )
  }
}

async function select<Row>(
  { connection, transaction }: Sql,
  statement: string,
  values: readonly (number | Buffer)[],
): Promise<Row[]> {
  return connection.execute<Row[]>(statement, values, 'all', transaction)
}

async function run(
  { connection, transaction }: Sql,
  statement: string,
  values: readonly (number | Buffer)[],
): Promise<void> {
  await connection.execute<QueryResult>(statement, values, 'run', transaction)
}
