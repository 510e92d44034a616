/** Past books: each changed market's books at the end of a segment of the public log. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, tableStatements } from './018-baseline.ts'

/** `seq` and `through_ms` are those of the market's last event in the segment, the leaves `from_leaf` to `to_leaf` − 1. */
const TABLE = {
  columns: `market_id hash, seq bigint, log_partition smallint, through_ms bigint, from_leaf bigint, to_leaf bigint,
    levels bytes`,
  key: 'market_id, seq',
  indexes: {
    public_books_by_time: '(market_id, through_ms, seq)',
    public_books_by_leaf: '(log_partition, to_leaf)',
  },
}

export const publicBooksOf = (dialect: Dialect) =>
  class PublicBooks extends Migration {
    override up(): void {
      for (const statement of tableStatements(dialect, 'public_books', TABLE))
        this.addSql(statement)
    }
  }
