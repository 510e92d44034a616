/**
 * Adds events and their markets, from the chain. Each sort order of a list has an index that ends with the event's key.
 * So a page reads only its own rows, or as many as a filter may scan.
 */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './018-baseline.ts'

const TABLES: Readonly<Record<string, Table>> = {
  events: {
    columns: `chain_id bigint, event_hash hash, slug varchar(64), title words(200),
      description words, category varchar(24), tags varchar(300), image words(80),
      signer address, searched words, ends_at_sec bigint, exclusive bool, created_at_sec bigint,
      volume_e6 bigint, block_number bigint, log_index bigint, tx_hash hash`,
    key: 'chain_id, event_hash',
    unique: { events_by_slug: '(slug, chain_id)' },
    indexes: {
      events_by_volume: '(volume_e6, chain_id, event_hash)',
      events_by_age: '(created_at_sec, chain_id, event_hash)',
      events_by_end: '(ends_at_sec, chain_id, event_hash)',
      events_by_category: '(category, chain_id, event_hash)',
      events_by_block: '(chain_id, block_number)',
    },
  },
  event_markets: {
    columns: `market_id hash, chain_id bigint, event_hash hash, block_number bigint,
      log_index bigint, tx_hash hash`,
    key: 'market_id',
    withoutRowid: true,
    indexes: {
      event_markets_of: '(chain_id, event_hash, block_number, log_index)',
      event_markets_by_block: '(chain_id, block_number)',
    },
  },
}

export const eventsOf = (dialect: Dialect) =>
  class Events extends Migration {
    override up(): void {
      for (const [name, table] of Object.entries(TABLES)) {
        for (const statement of tableStatements(dialect, name, table)) this.addSql(statement)
      }
    }
  }
