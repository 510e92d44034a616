/** Traders who withdrew all their orders below a nonce on chain, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'

export class WithdrawnEpochs extends Migration {
  override up(): void {
    this.addSql(`create table if not exists chain_withdrawn_epochs (
      chain_id bigint not null,
      trader binary(20) not null,
      before_nonce varchar(20) not null,
      effective_at_sec bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index),
      index chain_withdrawn_epochs_of_trader (chain_id, trader)
    ) ${TABLE}`)
  }
}
