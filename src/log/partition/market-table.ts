/**
 * Table of the markets with events in the partition, each with its first offset. Rows change within the caller's
 * transaction; `added` and `removed` update the copy in memory after that transaction has committed.
 */

import type BetterSqlite3 from 'better-sqlite3'
import type { MarketId } from '#domain/ids.ts'
import type { LogEvent } from '../event-log.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { checkTally, EMPTY, minus, plus, type Tally } from './schema.ts'

export type MarketRow = { readonly firstOffset: number; readonly crc: number }

export class MarketTable {
  readonly #home: RowHome
  readonly #rows = new Map<MarketId, MarketRow>()
  readonly #insert: BetterSqlite3.Statement
  readonly #delete: BetterSqlite3.Statement

  constructor(db: BetterSqlite3.Database, home: RowHome, stated: Tally, path: string) {
    this.#home = home
    this.#insert = db.prepare('INSERT INTO markets VALUES (?, ?, ?)')
    this.#delete = db.prepare('DELETE FROM markets WHERE market_id = ?')
    let found = EMPTY
    const rows = db.prepare('SELECT market_id, first_offset, crc FROM markets').iterate()
    for (const { market_id: marketId, first_offset: firstOffset, crc } of rows as Iterable<{
      market_id: MarketId
      first_offset: number
      crc: number
    }>) {
      if (this.#crc(marketId, firstOffset) !== crc) {
        throw corrupt(`${path}: a row of the markets is damaged`)
      }
      found = plus(found, crc)
      this.#rows.set(marketId, { firstOffset, crc })
    }
    checkTally(found, stated, 'markets', path)
  }

  get(marketId: MarketId): MarketRow | undefined {
    return this.#rows.get(marketId)
  }

  has(marketId: MarketId): boolean {
    return this.#rows.has(marketId)
  }

  all(): Iterable<[MarketId, MarketRow]> {
    return this.#rows
  }

  /** Inserts a row for each market whose first event is in this batch, and adds the row to `fresh`. */
  add(
    events: readonly LogEvent[],
    firstOffset: number,
    markets: Tally,
    fresh: Map<MarketId, MarketRow>,
  ): Tally {
    let tally = markets
    let before: MarketId | undefined
    for (let index = 0; index < events.length; index++) {
      const { marketId } = events[index]!
      if (marketId === before) continue
      before = marketId
      if (this.#rows.has(marketId) || fresh.has(marketId)) continue
      const offset = firstOffset + index
      const crc = this.#crc(marketId, offset)
      this.#insert.run(marketId, offset, crc)
      fresh.set(marketId, { firstOffset: offset, crc })
      tally = plus(tally, crc)
    }
    return tally
  }

  delete(marketId: MarketId, markets: Tally): Tally {
    const row = this.#rows.get(marketId)
    if (row === undefined) return markets
    this.#delete.run(marketId)
    return minus(markets, row.crc)
  }

  /** Adds a market's row to the copy in memory. Call it when the row is durable. */
  added(marketId: MarketId, row: MarketRow): void {
    this.#rows.set(marketId, row)
  }

  /** Removes a market's row from the copy in memory. Call it when the deletion is durable. */
  removed(marketId: MarketId): void {
    this.#rows.delete(marketId)
  }

  #crc(marketId: MarketId, firstOffset: number): number {
    return rowCrc('markets', this.#home, [marketId, firstOffset])
  }
}
