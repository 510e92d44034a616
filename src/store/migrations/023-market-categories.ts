/** Adds the index by which a category of markets is listed: without it, a rare category costs a scan of all markets. */

import { Migration } from '@mikro-orm/migrations'

const NAME = 'chain_markets_by_category'
const INDEX = `${NAME} on chain_markets (listed, category, quick, created_at_sec, market_id)`

/** A start that was killed may already have created it. MySQL has no `if not exists` for an index. */
const FOUND = `select 1 from information_schema.statistics
  where table_schema = database() and index_name = '${NAME}' limit 1`

export const marketCategoriesOf = (dialect: 'sqlite' | 'mysql') =>
  class MarketCategories extends Migration {
    override async up(): Promise<void> {
      if (dialect === 'sqlite') this.addSql(`create index if not exists ${INDEX}`)
      else if ((await this.execute(FOUND)).length === 0) this.addSql(`create index ${INDEX}`)
    }
  }
