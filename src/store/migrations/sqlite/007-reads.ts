/**
 * What reads are answered from, for SQLite: sums per market and per chain, and prices by minute, hour
 * and day. Sums are in whole units and millionths (`spans.ts`). What is kept per chain is kept per
 * partition too, so that two partitions never wait for one row.
 */

import { Migration } from '@mikro-orm/migrations'

export class Reads extends Migration {
  override up(): void {
    this.addSql(`create table if not exists market_stats (
      market_id blob not null primary key,
      chain_id integer not null,
      volume_whole integer not null,
      volume_millionths integer not null,
      trades integer not null
    ) strict, without rowid`)
    this.addSql(`create table if not exists candles (
      market_id blob not null,
      outcome integer not null,
      span_sec integer not null,
      start_sec integer not null,
      open_e6 integer not null,
      high_e6 integer not null,
      low_e6 integer not null,
      close_e6 integer not null,
      volume_whole integer not null,
      volume_millionths integer not null,
      trades integer not null,
      first_seq integer not null,
      first_fill integer not null,
      last_seq integer not null,
      last_fill integer not null,
      primary key (market_id, outcome, span_sec, start_sec)
    ) strict, without rowid`)
    this.addSql(`create table if not exists chain_stats (
      chain_id integer not null,
      log_partition integer not null,
      volume_whole integer not null,
      volume_millionths integer not null,
      trades integer not null,
      pending integer not null,
      traders integer not null,
      markets integer not null,
      markets_closed integer not null,
      markets_resolved integer not null,
      primary key (chain_id, log_partition)
    ) strict, without rowid`)
    this.addSql(`create table if not exists chain_spans (
      chain_id integer not null,
      log_partition integer not null,
      span_sec integer not null,
      start_sec integer not null,
      volume_whole integer not null,
      volume_millionths integer not null,
      trades integer not null,
      primary key (chain_id, span_sec, start_sec, log_partition)
    ) strict, without rowid`)
    this.addSql(`create table if not exists traders (
      chain_id integer not null,
      address blob not null,
      primary key (chain_id, address)
    ) strict, without rowid`)
    this.addSql(`create table if not exists positions (
      market_id blob not null,
      holder blob not null,
      chain_id integer not null,
      yes_shares_e6 integer not null,
      no_shares_e6 integer not null,
      total_shares_e6 integer not null,
      yes_cost_e6 integer not null,
      no_cost_e6 integer not null,
      primary key (market_id, holder)
    ) strict, without rowid`)
    this.addSql(`create index if not exists positions_by_size
      on positions (market_id, total_shares_e6, holder)`)
    this.addSql(`create index if not exists positions_of_holder
      on positions (holder, chain_id, market_id)`)
    this.addSql(`create table if not exists market_holdings (
      market_id blob not null primary key,
      chain_id integer not null,
      holders integer not null,
      locked_e6 integer not null
    ) strict, without rowid`)
    this.addSql(`create table if not exists chain_holdings (
      chain_id integer not null primary key,
      holders integer not null,
      locked_e6 integer not null
    ) strict, without rowid`)
  }
}
