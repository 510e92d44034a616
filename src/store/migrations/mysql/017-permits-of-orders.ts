/**
 * Index of orders with a permit by their trader, for MySQL and MariaDB. They have no partial index, so the column is
 * null for an order without a permit.
 */

import { Migration } from '@mikro-orm/migrations'

export class PermitsOfOrders extends Migration {
  override async up(): Promise<void> {
    // MySQL has no `if not exists` for a column.
    const found: unknown[] = await this.execute(
      `select 1 from information_schema.columns where table_schema = database()
        and table_name = 'orders' and column_name = 'permit_owner' limit 1`,
    )
    if (found.length > 0) return
    this.addSql(`alter table orders
      add column permit_owner binary(20) as (if(permit is null, null, trader)) virtual,
      add index orders_with_permit (permit_owner, chain_id, placed_at_ms)`)
  }
}
