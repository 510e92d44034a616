/**
 * Orders that were withdrawn on chain by their trader, for MySQL and MariaDB: each new order looks up its own trader.
 */

import { Migration } from '@mikro-orm/migrations'

const INDEX = 'chain_withdrawn_orders_of_trader'

export class Withdrawers extends Migration {
  override async up(): Promise<void> {
    // MySQL has no `if not exists` for an index.
    const found: unknown[] = await this.execute(
      `select 1 from information_schema.statistics where table_schema = database()
        and table_name = 'chain_withdrawn_orders' and index_name = '${INDEX}' limit 1`,
    )
    if (found.length > 0) return
    this.addSql(`create index ${INDEX} on chain_withdrawn_orders (chain_id, trader)`)
  }
}
