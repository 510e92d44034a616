/**
 * Pending trades by their chain, for MySQL and MariaDB: the backlog of one chain costs the settlement of
 * no other.
 */

import { Migration } from '@mikro-orm/migrations'

const INDEX = 'trades_pending_of_chain'

export class PendingOfChain extends Migration {
  override async up(): Promise<void> {
    // MySQL has no `if not exists` for an index.
    const found: unknown[] = await this.execute(
      `select 1 from information_schema.statistics where table_schema = database()
        and table_name = 'trades' and index_name = '${INDEX}' limit 1`,
    )
    if (found.length > 0) return
    this.addSql(
      `create index ${INDEX} on trades (chain_id, pending, matched_at_ms, seq, fill_index)`,
    )
  }
}
