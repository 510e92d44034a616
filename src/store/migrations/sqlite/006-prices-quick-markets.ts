/** Prices, what the sources said at boundaries, and quick markets, for SQLite. */

import { Migration } from '@mikro-orm/migrations'

export class PricesQuickMarkets extends Migration {
  override up(): void {
    this.addSql(`create table if not exists asset_prices (
      asset text not null,
      at_sec integer not null,
      observed_at_ms integer not null,
      price_e8 integer not null,
      source text not null,
      price_number integer not null,
      primary key (asset, at_sec)
    ) strict, without rowid`)

    this.addSql(`create table if not exists price_marks (
      boundary_at_sec integer not null,
      asset text not null,
      source text not null,
      price_e8 integer not null,
      observed_at_ms integer not null,
      received_at_ms integer not null,
      via text not null,
      exact integer not null,
      raw text not null,
      primary key (boundary_at_sec, asset, source)
    ) strict`)

    this.addSql(`create table if not exists quick_markets (
      quick_id integer not null primary key autoincrement,
      market_id blob not null,
      chain_id integer not null,
      contract_address blob not null,
      asset text not null,
      start_at_sec integer not null,
      interval_sec integer not null,
      start_price_e8 integer not null,
      source text not null,
      strike text not null,
      created_at_ms integer not null,
      end_price_e8 integer null,
      outcome integer null,
      resolution text null,
      resolved_at_ms integer null,
      create_tx_hash blob null,
      report_tx_hash blob null,
      chain_stage text not null,
      unfinished integer not null
    ) strict`)
    this.addSql(`create unique index if not exists quick_markets_once
      on quick_markets (chain_id, market_id)`)
    this.addSql(`create index if not exists quick_markets_by_asset
      on quick_markets (asset, start_at_sec, quick_id)`)
    this.addSql(`create index if not exists quick_markets_unfinished
      on quick_markets (quick_id) where unfinished = 1`)
  }
}
