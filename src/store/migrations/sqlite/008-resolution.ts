/** Finding the markets whose payout is missing, for SQLite. */

import { Migration } from '@mikro-orm/migrations'

export class Resolution extends Migration {
  override up(): void {
    this.addSql(`create index if not exists chain_markets_unpaid
      on chain_markets (chain_id, resolved, payouts_block)`)
  }
}
