/**
 * What reads are answered from, for MySQL and MariaDB: sums per market and per chain, and prices by
 * minute, hour and day. Sums are in whole units and millionths (`spans.ts`). What is kept per chain
 * is kept per partition too, so that two partitions never wait for one row.
 */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'

export class Reads extends Migration {
  override up(): void {
    this.addSql(`create table if not exists market_stats (
      market_id binary(32) not null primary key,
      chain_id bigint not null,
      volume_whole bigint not null,
      volume_millionths bigint not null,
      trades bigint not null
    ) ${TABLE}`)
    this.addSql(`create table if not exists candles (
      market_id binary(32) not null,
      outcome tinyint not null,
      span_sec int not null,
      start_sec bigint not null,
      open_e6 int not null,
      high_e6 int not null,
      low_e6 int not null,
      close_e6 int not null,
      volume_whole bigint not null,
      volume_millionths bigint not null,
      trades bigint not null,
      first_seq bigint not null,
      first_fill int not null,
      last_seq bigint not null,
      last_fill int not null,
      primary key (market_id, outcome, span_sec, start_sec)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_stats (
      chain_id bigint not null,
      log_partition smallint not null,
      volume_whole bigint not null,
      volume_millionths bigint not null,
      trades bigint not null,
      pending bigint not null,
      traders bigint not null,
      markets bigint not null,
      markets_closed bigint not null,
      markets_resolved bigint not null,
      primary key (chain_id, log_partition)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_spans (
      chain_id bigint not null,
      log_partition smallint not null,
      span_sec int not null,
      start_sec bigint not null,
      volume_whole bigint not null,
      volume_millionths bigint not null,
      trades bigint not null,
      primary key (chain_id, span_sec, start_sec, log_partition)
    ) ${TABLE}`)
    this.addSql(`create table if not exists traders (
      chain_id bigint not null,
      address binary(20) not null,
      primary key (chain_id, address)
    ) ${TABLE}`)
    this.addSql(`create table if not exists positions (
      market_id binary(32) not null,
      holder binary(20) not null,
      chain_id bigint not null,
      yes_shares_e6 bigint not null,
      no_shares_e6 bigint not null,
      total_shares_e6 bigint not null,
      yes_cost_e6 bigint not null,
      no_cost_e6 bigint not null,
      primary key (market_id, holder),
      index positions_by_size (market_id, total_shares_e6, holder),
      index positions_of_holder (holder, chain_id, market_id)
    ) ${TABLE}`)
    this.addSql(`create table if not exists market_holdings (
      market_id binary(32) not null primary key,
      chain_id bigint not null,
      holders bigint not null,
      locked_e6 bigint not null
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_holdings (
      chain_id bigint not null primary key,
      holders bigint not null,
      locked_e6 bigint not null
    ) ${TABLE}`)
  }
}
