/**
 * The table of trade statuses: the last outcome of each trade that was reported. When a market is
 * retired its statuses are orphans, which are swept away in small steps.
 */

import assert from 'node:assert/strict'
import type BetterSqlite3 from 'better-sqlite3'
import { type MarketId, parseTradeId, type TradeId } from '#domain/ids.ts'
import type { TradeStatus } from '#domain/trade.ts'
import type { TradeState } from './event-log.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { checkTally, EMPTY, minus, plus, type Tally } from './schema.ts'

type TradeRow = { status: TradeStatus; tx_hash: string; at_ms: number; crc: number }
type TradeKey = [market: Buffer, seq: number, fill: number]

export class TradeTable {
  readonly #home: RowHome
  readonly #path: string
  /** Retired markets whose trade statuses are still in the file. */
  readonly #orphans = new Set<MarketId>()
  readonly #select: BetterSqlite3.Statement
  readonly #put: BetterSqlite3.Statement
  readonly #list: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement

  /** Reads and checks all of the table; those of markets that the file does not have are orphans. */
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
    let found = EMPTY
    const rows = db.prepare('SELECT * FROM trade_status').iterate()
    for (const row of rows as Iterable<
      TradeRow & { market_id: Buffer; seq: number; fill: number }
    >) {
      const market = Buffer.isBuffer(row.market_id) ? row.market_id.toString('hex') : 'no bytes'
      const marketId = `0x${market}` as MarketId
      this.#state(`${marketId}-${row.seq}-${row.fill}` as TradeId, row)
      found = plus(found, row.crc)
      if (!markets.has(marketId)) this.#orphans.add(marketId)
    }
    checkTally(found, stated, 'trade statuses', path)
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
    return plus(old === undefined ? trades : minus(trades, old.crc), crc)
  }

  get hasOrphans(): boolean {
    return this.#orphans.size > 0
  }

  /** The market is durably gone. */
  orphan(marketId: MarketId): void {
    this.#orphans.add(marketId)
  }

  /** The market is durably there, or nothing of it is left. */
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
