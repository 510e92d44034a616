/** The public log: its trees, their tiles, and the entries that are their leaves. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './018-baseline.ts'

const TABLES: Readonly<Record<string, Table>> = {
  // `begins_at` is the offset of the first event in the log; `published_size` is the size of the signed checkpoint.
  public_trees: {
    columns: `log_partition smallint, log_id varchar(64), begins_at bigint, next_offset bigint,
      size bigint, root hash, published_size bigint, checkpoint words`,
    key: 'log_partition',
  },
  public_tiles: {
    columns: 'log_partition smallint, tile_level smallint, tile_index bigint, hashes blob',
    key: 'log_partition, tile_level, tile_index',
  },
  // `through_ms` is the time of the newest event so far, so that it never falls.
  public_entries: {
    columns: `log_partition smallint, leaf bigint, first_offset bigint, through_ms bigint, entry blob`,
    key: 'log_partition, leaf',
    indexes: { public_entries_by_time: '(log_partition, through_ms, leaf)' },
  },
}

export const transparencyOf = (dialect: Dialect) =>
  class Transparency extends Migration {
    override up(): void {
      for (const [name, table] of Object.entries(TABLES)) {
        for (const statement of tableStatements(dialect, name, table)) this.addSql(statement)
      }
    }
  }
