/** The reports of price sources that contradict each other about a quick market, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

export class ContestedQuickMarkets extends Migration {
  override async up(): Promise<void> {
    // There is no `if not exists` for a column that both MySQL and SQLite know.
    const found: unknown[] = await this.execute(
      `select 1 from information_schema.columns where table_schema = database()
        and table_name = 'quick_markets' and column_name = 'contested' limit 1`,
    )
    if (found.length > 0) return
    this.addSql(
      `alter table quick_markets add column contested mediumtext character set utf8mb4 collate utf8mb4_bin null`,
    )
  }
}
