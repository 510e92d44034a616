/** Facts about unsettled trades that settlement must not forget when it is killed. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './018-baseline.ts'

const NOTES: Table = {
  columns: `market_id hash, seq bigint, fill_index int, chain_id bigint, reachable_ms bigint,
    retries int, wasted_gas bigint, fault varchar(8) null, reason words(1024) null`,
  key: 'market_id, seq, fill_index',
  withoutRowid: true,
}

export const settlementNotesOf = (dialect: Dialect) =>
  class SettlementNotes extends Migration {
    override up(): void {
      for (const statement of tableStatements(dialect, 'settlement_notes', NOTES)) {
        this.addSql(statement)
      }
    }
  }
