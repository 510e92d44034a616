/**
 * Markets, orders, trades and the projector's checkpoints, for MySQL and MariaDB. MySQL commits every
 * statement that changes a schema at once, so each table comes with its indexes in one statement that
 * may be repeated: a start that was killed half way leaves nothing that the next one trips over.
 *
 * InnoDB keeps a table in the order of its primary key and repeats that key in every other index.
 * Hashes come in no order at all, so rows of orders and trades are numbered as they come: otherwise
 * every new order would change a page anywhere in the table. Text without a language is ASCII. No
 * foreign keys: the log is the truth, and it was checked.
 */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const WORDS = 'mediumtext character set utf8mb4 collate utf8mb4_bin'

export class MarketsOrdersTrades extends Migration {
  override up(): void {
    this.addSql(`create table if not exists markets (
      market_id binary(32) not null primary key,
      chain_id bigint not null,
      question ${WORDS} not null,
      description ${WORDS} not null,
      category varchar(16) not null,
      contract_address binary(20) not null,
      maker binary(20) not null,
      expires_at_sec bigint not null,
      created_at_sec bigint not null,
      quick tinyint(1) not null,
      opened_at_ms bigint not null,
      close_reason varchar(16) null,
      closed_at_ms bigint null,
      log_partition smallint not null,
      last_seq bigint not null,
      index markets_by_age (created_at_sec, market_id),
      index markets_by_kind (quick, created_at_sec, market_id),
      index markets_by_chain (chain_id, quick, created_at_sec, market_id),
      index markets_by_category (category, quick, created_at_sec, market_id),
      index markets_by_expiration (expires_at_sec),
      index markets_by_contract (contract_address)
    ) ${TABLE}`)

    this.addSql(`create table if not exists orders (
      row_no bigint unsigned not null auto_increment primary key,
      order_hash binary(32) not null,
      market_id binary(32) not null,
      chain_id bigint not null,
      trader binary(20) not null,
      side tinyint not null,
      outcome tinyint not null,
      price_e6 int not null,
      size_e6 bigint not null,
      nonce varchar(20) not null,
      expiration varchar(20) not null,
      expires_at_sec bigint not null,
      maker_fee_recipient binary(20) not null,
      signature binary(65) not null,
      permit text null,
      status varchar(16) not null,
      remaining_e6 bigint not null,
      matches int not null,
      placed_at_ms bigint not null,
      updated_at_ms bigint not null,
      log_partition smallint not null,
      last_seq bigint not null,
      unique index orders_by_hash (order_hash),
      index orders_of_trader (trader, status, chain_id),
      index orders_of_market (market_id, status)
    ) ${TABLE}`)

    this.addSql(`create table if not exists trades (
      row_no bigint unsigned not null auto_increment primary key,
      market_id binary(32) not null,
      seq bigint not null,
      fill_index int not null,
      chain_id bigint not null,
      outcome tinyint not null,
      price_e6 int not null,
      size_e6 bigint not null,
      cost_e6 bigint not null,
      buyer binary(20) not null,
      seller binary(20) not null,
      buy_order_hash binary(32) not null,
      sell_order_hash binary(32) not null,
      taker_side tinyint not null,
      matched_at_ms bigint not null,
      status varchar(16) not null,
      pending tinyint(1) not null,
      tx_hash binary(32) null,
      reason varchar(1024) character set utf8mb4 collate utf8mb4_bin null,
      attempts int not null,
      failed_at_ms bigint null,
      updated_at_ms bigint not null,
      unique index trades_of_market (market_id, seq, fill_index),
      index trades_pending (pending, matched_at_ms, seq, fill_index),
      index trades_failed (failed_at_ms, seq, fill_index),
      index trades_of_buyer (buyer, chain_id, matched_at_ms, seq, fill_index),
      index trades_of_seller (seller, chain_id, matched_at_ms, seq, fill_index),
      index trades_by_transaction (tx_hash)
    ) ${TABLE}`)

    this.addSql(`create table if not exists checkpoints (
      log_partition smallint not null primary key,
      log_id varchar(64) not null,
      log_offset bigint not null
    ) ${TABLE}`)
  }
}
