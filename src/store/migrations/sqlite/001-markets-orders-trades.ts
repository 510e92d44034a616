/**
 * Markets, orders, trades and the projector's checkpoints, for SQLite. Strict tables, so that an
 * amount can only ever be an integer. Indexes hold only the rows that are asked for by them. No
 * foreign keys: the log is the truth, and it was checked.
 */

import { Migration } from '@mikro-orm/migrations'

export class MarketsOrdersTrades extends Migration {
  override up(): void {
    this.addSql(`create table if not exists markets (
      market_id blob not null primary key,
      chain_id integer not null,
      question text not null,
      description text not null,
      category text not null,
      contract_address blob not null,
      maker blob not null,
      expires_at_sec integer not null,
      created_at_sec integer not null,
      quick integer not null,
      opened_at_ms integer not null,
      close_reason text null,
      closed_at_ms integer null,
      log_partition integer not null,
      last_seq integer not null
    ) strict`)
    this.addSql('create index if not exists markets_by_age on markets (created_at_sec, market_id)')
    this.addSql(`create index if not exists markets_by_kind
      on markets (quick, created_at_sec, market_id)`)
    this.addSql(`create index if not exists markets_by_chain
      on markets (chain_id, quick, created_at_sec, market_id)`)
    this.addSql(`create index if not exists markets_by_category
      on markets (category, quick, created_at_sec, market_id)`)
    this.addSql('create index if not exists markets_by_expiration on markets (expires_at_sec)')
    this.addSql('create index if not exists markets_by_contract on markets (contract_address)')

    this.addSql(`create table if not exists orders (
      order_hash blob not null primary key,
      market_id blob not null,
      chain_id integer not null,
      trader blob not null,
      side integer not null,
      outcome integer not null,
      price_e6 integer not null,
      size_e6 integer not null,
      nonce text not null,
      expiration text not null,
      expires_at_sec integer not null,
      maker_fee_recipient blob not null,
      signature blob not null,
      permit text null,
      status text not null,
      remaining_e6 integer not null,
      matches integer not null,
      placed_at_ms integer not null,
      updated_at_ms integer not null,
      log_partition integer not null,
      last_seq integer not null
    ) strict`)
    this.addSql(`create index if not exists orders_of_trader
      on orders (trader, chain_id, market_id) where status = 'open'`)
    this.addSql(`create index if not exists orders_of_market
      on orders (market_id) where status = 'open'`)

    this.addSql(`create table if not exists trades (
      market_id blob not null,
      seq integer not null,
      fill_index integer not null,
      chain_id integer not null,
      outcome integer not null,
      price_e6 integer not null,
      size_e6 integer not null,
      cost_e6 integer not null,
      buyer blob not null,
      seller blob not null,
      buy_order_hash blob not null,
      sell_order_hash blob not null,
      taker_side integer not null,
      matched_at_ms integer not null,
      status text not null,
      pending integer not null,
      tx_hash blob null,
      reason text null,
      attempts integer not null,
      failed_at_ms integer null,
      updated_at_ms integer not null,
      primary key (market_id, seq, fill_index)
    ) strict`)
    this.addSql(`create index if not exists trades_pending
      on trades (matched_at_ms, seq, fill_index) where pending = 1`)
    this.addSql(`create index if not exists trades_failed
      on trades (failed_at_ms, seq, fill_index) where failed_at_ms is not null`)
    this.addSql(`create index if not exists trades_of_buyer
      on trades (buyer, chain_id, matched_at_ms, seq, fill_index)`)
    this.addSql(`create index if not exists trades_of_seller
      on trades (seller, chain_id, matched_at_ms, seq, fill_index)`)
    this.addSql(`create index if not exists trades_by_transaction
      on trades (tx_hash) where tx_hash is not null`)

    this.addSql(`create table if not exists checkpoints (
      log_partition integer not null primary key,
      log_id text not null,
      log_offset integer not null
    ) strict`)
  }
}
