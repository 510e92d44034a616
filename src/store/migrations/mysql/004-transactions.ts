/**
 * Transactions of the exchange's own keys, for MySQL and MariaDB: one row per nonce, and every hash
 * that was ever signed for it.
 */

import { Migration } from '@mikro-orm/migrations'

export class Transactions extends Migration {
  override up(): void {
    this.addSql(`create table if not exists transactions (
      chain_id bigint not null,
      sender char(42) not null,
      nonce bigint not null,
      revision bigint not null,
      purpose varchar(32) not null,
      reference mediumtext character set utf8mb4 collate utf8mb4_bin not null,
      raw mediumtext not null,
      hashes mediumtext not null,
      blanks mediumtext not null,
      max_fee_per_gas varchar(78) not null,
      max_priority_fee_per_gas varchar(78) not null,
      state varchar(16) not null,
      tx_hash char(66) null,
      block_number bigint null,
      block_hash char(66) null,
      gas_used bigint null,
      error varchar(1024) character set utf8mb4 collate utf8mb4_bin not null,
      signed_at_ms bigint not null,
      updated_at_ms bigint not null,
      finished_at_ms bigint null,
      primary key (chain_id, sender, nonce),
      index transactions_open (state, chain_id, sender, nonce),
      index transactions_by_block (chain_id, sender, block_number)
    ) engine = InnoDB default character set ascii collate ascii_bin`)
    this.addSql(`create table if not exists transaction_hashes (
      tx_hash char(66) not null primary key,
      chain_id bigint not null,
      sender char(42) not null,
      nonce bigint not null
    ) engine = InnoDB default character set ascii collate ascii_bin`)
  }
}
