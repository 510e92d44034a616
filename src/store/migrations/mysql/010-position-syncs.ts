/** Positions that were read from a chain ahead of the indexer, for MySQL and MariaDB. Shares are decimal text. */

import { Migration } from '@mikro-orm/migrations'

export class PositionSyncs extends Migration {
  override up(): void {
    this.addSql(`create table if not exists position_syncs (
      market_id binary(32) not null,
      holder binary(20) not null,
      chain_id bigint not null,
      block_number bigint not null,
      block_hash binary(32) not null,
      yes_shares varchar(78) not null,
      no_shares varchar(78) not null,
      at_ms bigint not null,
      primary key (market_id, holder),
      index position_syncs_of_holder (holder, chain_id, market_id),
      index position_syncs_by_block (chain_id, block_number)
    ) engine = InnoDB default character set ascii collate ascii_bin`)
  }
}
