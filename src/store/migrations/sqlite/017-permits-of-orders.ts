/**
 * Index of orders with a permit by their trader, for SQLite: settlement looks up earlier permits that a later one
 * needs.
 */

import { Migration } from '@mikro-orm/migrations'

export class PermitsOfOrders extends Migration {
  override up(): void {
    this.addSql(`create index if not exists orders_with_permit
      on orders (trader, chain_id, placed_at_ms) where permit is not null`)
  }
}
