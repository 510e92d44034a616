/** Pending trades by their chain, for SQLite: the backlog of one chain costs the settlement of no other. */

import { Migration } from '@mikro-orm/migrations'

export class PendingOfChain extends Migration {
  override up(): void {
    this.addSql(`create index if not exists trades_pending_of_chain
      on trades (chain_id, matched_at_ms, seq, fill_index) where pending = 1`)
  }
}
