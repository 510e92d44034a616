/** Traders who withdrew all their orders below a nonce on chain, for SQLite. */

import { Migration } from '@mikro-orm/migrations'

export class WithdrawnEpochs extends Migration {
  override up(): void {
    this.addSql(`create table if not exists chain_withdrawn_epochs (
      chain_id integer not null,
      trader blob not null,
      before_nonce text not null,
      effective_at_sec integer not null,
      block_number integer not null,
      log_index integer not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index)
    ) strict`)
    this.addSql(`create index if not exists chain_withdrawn_epochs_of_trader
      on chain_withdrawn_epochs (chain_id, trader)`)
  }
}
