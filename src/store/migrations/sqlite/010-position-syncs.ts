/** Positions that were read from a chain ahead of the indexer, for SQLite. Shares are decimal text. */

import { Migration } from '@mikro-orm/migrations'

export class PositionSyncs extends Migration {
  override up(): void {
    this.addSql(`create table if not exists position_syncs (
      market_id blob not null,
      holder blob not null,
      chain_id integer not null,
      block_number integer not null,
      block_hash blob not null,
      yes_shares text not null,
      no_shares text not null,
      at_ms integer not null,
      primary key (market_id, holder)
    ) strict, without rowid`)
    this.addSql(`create index if not exists position_syncs_of_holder
      on position_syncs (holder, chain_id, market_id)`)
    this.addSql(`create index if not exists position_syncs_by_block
      on position_syncs (chain_id, block_number)`)
  }
}
