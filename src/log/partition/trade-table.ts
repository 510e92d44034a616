/**
 * Table of trade statuses: the last reported outcome of each trade. When a market is retired, its statuses become
 * orphans, which `sweep` removes in small steps.
 */

import assert from 'node:assert/strict'
import type BetterSqlite3 from 'better-sqlite3'
import { type MarketId, parseTradeId, type TradeId } from '#domain/ids.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { TradeState } from '../event-log.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { checkTally, EMPTY, minus, plus, type Tally } from './schema.ts'

type TradeRow = { status: TradeStatus; tx_hash: string; at_ms: number; crc: number }
type KeyedRow = TradeRow & { market_id: Buffer; seq: number; fill: number }
type TradeKey = [market: Buffer, seq: number, fill: number]

/**
 * Tables with at most this many rows are checked while the file is opened. At this size, the check takes a tenth of a
 * second.
 */
const CHECKED_AT_ONCE = 10_000
/** A key that sorts before the keys of all markets. */
const NO_BYTES = Buffer.alloc(0)

export class TradeTable {
  readonly #home: RowHome
  readonly #path: string
  /** Retired markets whose trade statuses are still in the file. */
  readonly #orphans = new Set<MarketId>()
  readonly #select: BetterSqlite3.Statement
  readonly #put: BetterSqlite3.Statement
  readonly #list: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement

  readonly #next: BetterSqlite3.Statement
  readonly #from: BetterSqlite3.Statement
  /**
   * Progress of the check of a large table, which runs in steps while the partition is in use; undefined once the check
   * is complete.
   */
  #walk: { market: Buffer; seq: number; fill: number; found: Tally } | undefined

  /**
   * Finds the markets that have rows in the table. A market that the partition no longer has was retired, so its rows
   * are orphans. A small table is checked at once. A large table is checked later, in steps, by `check`. Each row is
   * also checked when it is read. So the cost of opening a large table depends on the number of markets, not of trades.
   */
  constructor(
    db: BetterSqlite3.Database,
    path: string,
    home: RowHome,
    expected: { readonly stated: Tally; readonly markets: { has(marketId: MarketId): boolean } },
  ) {
    const { stated, markets } = expected
    this.#home = home
    this.#path = path
    const key = 'market_id = ? AND seq = ? AND fill = ?'
    this.#select = db.prepare(`SELECT status, tx_hash, at_ms, crc FROM trade_status WHERE ${key}`)
    this.#put = db.prepare('INSERT OR REPLACE INTO trade_status VALUES (?, ?, ?, ?, ?, ?, ?)')
    this.#list = db.prepare('SELECT seq, fill, crc FROM trade_status WHERE market_id = ? LIMIT ?')
    this.#delete = db.prepare(`DELETE FROM trade_status WHERE ${key}`)
    this.#next = db
      .prepare('SELECT market_id FROM trade_status WHERE market_id > ? ORDER BY market_id LIMIT 1')
      .pluck()
    this.#from = db.prepare(
      'SELECT * FROM trade_status WHERE (market_id, seq, fill) > (?, ?, ?) ' +
        'ORDER BY market_id, seq, fill LIMIT ?',
    )
    for (let market = this.#next.get(NO_BYTES); market !== undefined; ) {
      if (!Buffer.isBuffer(market)) throw corrupt(`${path}: a trade status has no market id`)
      const marketId = `0x${market.toString('hex')}` as MarketId
      if (!markets.has(marketId)) this.#orphans.add(marketId)
      market = this.#next.get(market)
    }
    this.#walk = { market: NO_BYTES, seq: -1, fill: -1, found: EMPTY }
    if (stated.rows <= CHECKED_AT_ONCE) this.check(CHECKED_AT_ONCE + 1, stated)
  }

  /** True once the table has been checked since it was opened. */
  get isChecked(): boolean {
    return this.#walk === undefined
  }

  /**
   * Checks the next rows. At the end of the table, also compares the number and checksums of the rows with `stated`.
   */
  check(limit: number, stated: Tally): void {
    const walk = this.#walk
    if (walk === undefined) return
    const rows = this.#from.all(walk.market, walk.seq, walk.fill, limit) as KeyedRow[]
    for (const row of rows) {
      const { market_id: market, seq, fill } = row
      const name = Buffer.isBuffer(market) ? market.toString('hex') : 'no bytes'
      this.#state(`0x${name}-${seq}-${fill}` as TradeId, row)
      walk.found = plus(walk.found, row.crc)
      walk.market = market
      walk.seq = seq
      walk.fill = fill
    }
    if (rows.length === limit) return
    this.#walk = undefined
    checkTally(walk.found, stated, 'trade statuses', this.#path)
  }

  /** Restarts an unfinished check. Call this after a rollback, because the check may have counted the undone change. */
  checkAnew(): void {
    if (this.#walk === undefined) return
    this.#walk = { market: NO_BYTES, seq: -1, fill: -1, found: EMPTY }
  }

  /**
   * Adds a change to the tally of the unfinished check if the check has already passed the changed row. Otherwise the
   * check counts the new row when it reaches that row.
   */
  #noteChange([market, seq, fill]: TradeKey, change: (found: Tally) => Tally): void {
    const walk = this.#walk
    if (walk === undefined) return
    const order = Buffer.compare(market, walk.market) || seq - walk.seq || fill - walk.fill
    if (order <= 0) walk.found = change(walk.found)
  }

  find(tradeId: TradeId): TradeState | undefined {
    const row = this.#select.get(...keyOf(tradeId)) as TradeRow | undefined
    return row === undefined ? undefined : this.#state(tradeId, row)
  }

  put(trade: TradeState, trades: Tally): Tally {
    const key = keyOf(trade.tradeId)
    const old = this.#select.get(...key) as TradeRow | undefined
    const crc = this.#crc(trade)
    this.#put.run(...key, trade.status, trade.txHash, trade.atMs, crc)
    const changed = (tally: Tally) => plus(old === undefined ? tally : minus(tally, old.crc), crc)
    this.#noteChange(key, changed)
    return changed(trades)
  }

  get hasOrphans(): boolean {
    return this.#orphans.size > 0
  }

  /** Marks the market's statuses for removal. Call it when the market's removal is durable. */
  orphan(marketId: MarketId): void {
    this.#orphans.add(marketId)
  }

  /**
   * Ends the removal of a market's statuses. Call it when its last status is removed, or when the market is durable in
   * the log again.
   */
  clearOrphan(marketId: MarketId): void {
    this.#orphans.delete(marketId)
  }

  /** Removes up to `limit` statuses of retired markets, within the caller's transaction. */
  sweep(limit: number, trades: Tally): { swept: number; trades: Tally; finished: MarketId[] } {
    const finished: MarketId[] = []
    let swept = 0
    let rest = trades
    for (const marketId of this.#orphans) {
      if (swept >= limit) break
      const market = marketBytes(marketId)
      const rows = this.#list.all(market, limit - swept) as {
        seq: number
        fill: number
        crc: number
      }[]
      for (const { seq, fill, crc } of rows) {
        this.#delete.run(market, seq, fill)
        rest = minus(rest, crc)
        this.#noteChange([market, seq, fill], (found) => minus(found, crc))
      }
      swept += rows.length
      if (swept < limit) finished.push(marketId)
    }
    return { swept, trades: rest, finished }
  }

  #state(tradeId: TradeId, row: TradeRow): TradeState {
    const trade = { tradeId, status: row.status, txHash: row.tx_hash, atMs: row.at_ms }
    if (this.#crc(trade) !== row.crc) {
      throw corrupt(`${this.#path}: the status of ${tradeId} is damaged`)
    }
    return trade
  }

  #crc({ tradeId, status, txHash, atMs }: TradeState): number {
    return rowCrc('trade_status', this.#home, [tradeId, status, txHash, atMs])
  }
}

function keyOf(tradeId: TradeId): TradeKey {
  const parts = parseTradeId(tradeId)
  assert(parts !== undefined, 'a trade id has a market, a sequence number and an index')
  return [marketBytes(parts.marketId), parts.sequence, parts.fillIndex]
}

function marketBytes(marketId: MarketId): Buffer {
  return Buffer.from(marketId.slice(2), 'hex')
}
