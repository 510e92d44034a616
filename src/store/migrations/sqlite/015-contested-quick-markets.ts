/** The reports of price sources that contradict each other about a quick market, for SQLite. */

import { Migration } from '@mikro-orm/migrations'

export class ContestedQuickMarkets extends Migration {
  override async up(): Promise<void> {
    // There is no `if not exists` for a column that both MySQL and SQLite know.
    const found: unknown[] = await this.execute(
      `select 1 from pragma_table_info('quick_markets') where name = 'contested'`,
    )
    if (found.length > 0) return
    this.addSql(`alter table quick_markets add column contested text null`)
  }
}
