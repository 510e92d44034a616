/** Finding the markets whose payout is missing, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

export class Resolution extends Migration {
  override up(): void {
    this.addSql(`alter table chain_markets
      add index chain_markets_unpaid (chain_id, resolved, payouts_block)`)
  }
}
