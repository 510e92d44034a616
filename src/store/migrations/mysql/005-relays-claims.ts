/** What the relayer sent for users, and the redemptions among it, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const WORDS = 'varchar(1024) character set utf8mb4 collate utf8mb4_bin'

export class RelaysClaims extends Migration {
  override up(): void {
    this.addSql(`create table if not exists relays (
      relay_key binary(32) not null primary key,
      chain_id bigint not null,
      kind varchar(32) not null,
      owner binary(20) not null,
      status varchar(16) not null,
      unfinished tinyint not null,
      attempt int not null,
      tx_hash binary(32) null,
      gas bigint not null,
      reason ${WORDS} null,
      opened_at_ms bigint not null,
      updated_at_ms bigint not null,
      index relays_unfinished (chain_id, unfinished, opened_at_ms),
      index relays_by_owner (chain_id, owner, opened_at_ms, gas),
      index relays_by_time (chain_id, opened_at_ms, gas)
    ) ${TABLE}`)

    this.addSql(`create table if not exists claims (
      relay_key binary(32) not null,
      item int not null,
      chain_id bigint not null,
      user_address binary(20) not null,
      market_id binary(32) not null,
      market_address binary(20) not null,
      payout_e6 bigint not null,
      winning_outcome tinyint not null,
      status varchar(16) not null,
      tx_hash binary(32) null,
      reason ${WORDS} null,
      submitted_at_ms bigint not null,
      updated_at_ms bigint not null,
      primary key (relay_key, item),
      index claims_by_status (status, submitted_at_ms, item),
      index claims_by_user (user_address, chain_id, submitted_at_ms, item)
    ) ${TABLE}`)
  }
}
