/** Orders that were withdrawn on chain by their trader, for SQLite: each new order looks up its own trader. */

import { Migration } from '@mikro-orm/migrations'

export class Withdrawers extends Migration {
  override up(): void {
    this.addSql(`create index if not exists chain_withdrawn_orders_of_trader
      on chain_withdrawn_orders (chain_id, trader)`)
  }
}
