/** Prices, what the sources said at boundaries, and quick markets, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const REPORT = 'mediumtext character set utf8mb4 collate utf8mb4_bin'

export class PricesQuickMarkets extends Migration {
  override up(): void {
    this.addSql(`create table if not exists asset_prices (
      asset varchar(16) not null,
      at_sec bigint not null,
      observed_at_ms bigint not null,
      price_e8 bigint not null,
      source varchar(16) not null,
      price_number bigint not null,
      primary key (asset, at_sec)
    ) ${TABLE}`)

    this.addSql(`create table if not exists price_marks (
      boundary_at_sec bigint not null,
      asset varchar(16) not null,
      source varchar(16) not null,
      price_e8 bigint not null,
      observed_at_ms bigint not null,
      received_at_ms bigint not null,
      via varchar(16) not null,
      exact tinyint not null,
      raw ${REPORT} not null,
      primary key (boundary_at_sec, asset, source)
    ) ${TABLE}`)

    this.addSql(`create table if not exists quick_markets (
      quick_id bigint not null auto_increment primary key,
      market_id binary(32) not null,
      chain_id bigint not null,
      contract_address binary(20) not null,
      asset varchar(16) not null,
      start_at_sec bigint not null,
      interval_sec int not null,
      start_price_e8 bigint not null,
      source varchar(16) not null,
      strike ${REPORT} not null,
      created_at_ms bigint not null,
      end_price_e8 bigint null,
      outcome tinyint null,
      resolution ${REPORT} null,
      resolved_at_ms bigint null,
      create_tx_hash binary(32) null,
      report_tx_hash binary(32) null,
      chain_stage varchar(16) not null,
      unfinished tinyint not null,
      unique index quick_markets_once (chain_id, market_id),
      index quick_markets_by_asset (asset, start_at_sec, quick_id),
      index quick_markets_unfinished (unfinished, quick_id)
    ) ${TABLE}`)
  }
}
