/**
 * What the indexer took from each chain, for MySQL and MariaDB: how far it is, the hashes of blocks
 * by which a reorg is recognised, markets, assertions, tokens, trades. Whatever came with a block
 * carries its number, so that undoing blocks is undoing rows.
 */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const WORDS = ' character set utf8mb4 collate utf8mb4_bin'

export class Chain extends Migration {
  override up(): void {
    this.addSql(`create table if not exists chain_cursors (
      chain_id bigint not null,
      deployment varchar(512) not null,
      start_block bigint not null,
      indexed_block bigint not null,
      indexed_hash binary(32) not null,
      updated_at_ms bigint not null,
      primary key (chain_id)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_blocks (
      chain_id bigint not null,
      block_number bigint not null,
      block_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_markets (
      market_id binary(32) not null,
      chain_id bigint not null,
      contract_address binary(20) not null,
      maker binary(20) not null,
      question mediumtext${WORDS} not null,
      description mediumtext${WORDS} not null,
      searched mediumtext${WORDS} not null,
      category varchar(24) not null,
      expires_at_sec bigint not null,
      created_at_sec bigint not null,
      quick tinyint(1) not null,
      asset varchar(64)${WORDS} null,
      start_sec bigint null,
      start_price_e8 bigint null,
      price_source varchar(64)${WORDS} null,
      end_start_price_e8 bigint null,
      end_price_e8 bigint null,
      end_source varchar(64)${WORDS} null,
      created_block bigint not null,
      created_log_index bigint not null,
      created_tx binary(32) not null,
      resolved tinyint(1) not null,
      winning_outcome tinyint null,
      resolved_block bigint null,
      resolved_at_sec bigint null,
      resolved_tx binary(32) null,
      payouts varchar(64)${WORDS} null,
      payouts_block bigint null,
      orphaned_block bigint null,
      withdrawn tinyint(1) not null,
      listed tinyint(1) not null,
      primary key (market_id),
      index chain_markets_by_age (listed, quick, created_at_sec, market_id),
      index chain_markets_by_chain (chain_id, created_block),
      index chain_markets_by_contract (contract_address),
      index chain_markets_by_asset (asset, chain_id, start_sec),
      index chain_markets_by_expiration (resolved, expires_at_sec),
      index chain_markets_unpaid (chain_id, resolved, payouts_block)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_outcomes (
      chain_id bigint not null,
      position_id binary(32) not null,
      market_id binary(32) not null,
      outcome tinyint not null,
      primary key (chain_id, position_id),
      index chain_outcomes_of_market (market_id, outcome)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_assertions (
      chain_id bigint not null,
      assertion_id binary(32) not null,
      market_id binary(32) not null,
      proposer binary(20) not null,
      asserter binary(20) not null,
      proposed_outcome tinyint not null,
      bond_e6 bigint not null,
      asserted_at_sec bigint not null,
      window_ends_at_sec bigint not null,
      proposed_block bigint not null,
      proposed_log_index bigint not null,
      proposed_tx binary(32) not null,
      disputed_block bigint null,
      disputed_at_sec bigint null,
      disputed_tx binary(32) null,
      ended_as varchar(24) null,
      ended_block bigint null,
      ended_at_sec bigint null,
      ended_tx binary(32) null,
      primary key (chain_id, assertion_id),
      index chain_assertions_of_market (market_id, proposed_block, proposed_log_index),
      index chain_assertions_open (chain_id, ended_as, window_ends_at_sec)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_market_events (
      chain_id bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      market_id binary(32) not null,
      event varchar(24) not null,
      facts mediumtext${WORDS} not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index),
      index chain_market_events_of (market_id, block_number, log_index)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_token_moves (
      chain_id bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      part bigint not null,
      position_id binary(32) not null,
      sender binary(20) not null,
      receiver binary(20) not null,
      amount_e6 bigint not null,
      kind varchar(24) not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index, part),
      index chain_token_moves_of (chain_id, position_id, block_number, log_index, part),
      index chain_token_moves_from (sender, chain_id, block_number, log_index, part),
      index chain_token_moves_to (receiver, chain_id, block_number, log_index, part)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_token_balances (
      chain_id bigint not null,
      position_id binary(32) not null,
      holder binary(20) not null,
      balance_e6 bigint not null,
      block_number bigint not null,
      primary key (chain_id, position_id, holder),
      index chain_token_balances_of (holder, chain_id, position_id),
      index chain_token_balances_by_size (chain_id, position_id, balance_e6)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_conversions (
      chain_id bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      kind varchar(24) not null,
      holder binary(20) not null,
      market_id binary(32) not null,
      amount_e6 bigint not null,
      index_sets varchar(64)${WORDS} not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index),
      index chain_conversions_of_holder (holder, chain_id, block_number, log_index),
      index chain_conversions_of_market (market_id, holder, block_number, log_index),
      index chain_conversions_by_transaction (tx_hash)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_trades (
      chain_id bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      trade_key binary(32) not null,
      settled tinyint(1) not null,
      market_id binary(32) null,
      buyer binary(20) null,
      seller binary(20) null,
      buy_order_hash binary(32) not null,
      sell_order_hash binary(32) not null,
      outcome tinyint null,
      price_e6 bigint null,
      size_e6 bigint null,
      cost_e6 bigint null,
      fault varchar(24) not null,
      reason varchar(64)${WORDS} not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index),
      index chain_trades_by_key (trade_key, block_number, log_index),
      index chain_trades_by_transaction (tx_hash)
    ) ${TABLE}`)
    this.addSql(`create table if not exists chain_withdrawn_orders (
      chain_id bigint not null,
      order_hash binary(32) not null,
      trader binary(20) not null,
      effective_at_sec bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, order_hash),
      index chain_withdrawn_orders_by_block (chain_id, block_number)
    ) ${TABLE}`)
  }
}
