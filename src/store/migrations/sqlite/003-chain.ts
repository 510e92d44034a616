/**
 * What the indexer took from each chain, for SQLite: how far it is, the hashes of blocks
 * by which a reorg is recognised, markets, assertions, tokens, trades. Whatever came with a block
 * carries its number, so that undoing blocks is undoing rows.
 */

import { Migration } from '@mikro-orm/migrations'

export class Chain extends Migration {
  override up(): void {
    this.addSql(`create table if not exists chain_cursors (
      chain_id integer not null,
      deployment text not null,
      start_block integer not null,
      indexed_block integer not null,
      indexed_hash blob not null,
      updated_at_ms integer not null,
      primary key (chain_id)
    ) strict`)
    this.addSql(`create table if not exists chain_blocks (
      chain_id integer not null,
      block_number integer not null,
      block_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number)
    ) strict, without rowid`)
    this.addSql(`create table if not exists chain_markets (
      market_id blob not null,
      chain_id integer not null,
      contract_address blob not null,
      maker blob not null,
      question text not null,
      description text not null,
      searched text not null,
      category text not null,
      expires_at_sec integer not null,
      created_at_sec integer not null,
      quick integer not null,
      asset text null,
      start_sec integer null,
      start_price_e8 integer null,
      price_source text null,
      end_start_price_e8 integer null,
      end_price_e8 integer null,
      end_source text null,
      created_block integer not null,
      created_log_index integer not null,
      created_tx blob not null,
      resolved integer not null,
      winning_outcome integer null,
      resolved_block integer null,
      resolved_at_sec integer null,
      resolved_tx blob null,
      payouts text null,
      payouts_block integer null,
      orphaned_block integer null,
      withdrawn integer not null,
      listed integer not null,
      primary key (market_id)
    ) strict`)
    this.addSql(`create index if not exists chain_markets_by_age
      on chain_markets (listed, quick, created_at_sec, market_id)`)
    this.addSql(`create index if not exists chain_markets_by_chain
      on chain_markets (chain_id, created_block)`)
    this.addSql(`create index if not exists chain_markets_by_contract
      on chain_markets (contract_address)`)
    this.addSql(`create index if not exists chain_markets_by_asset
      on chain_markets (asset, chain_id, start_sec) where asset is not null`)
    this.addSql(`create index if not exists chain_markets_unpaid
      on chain_markets (chain_id, resolved, payouts_block)`)
    this.addSql(`create index if not exists chain_markets_by_expiration
      on chain_markets (resolved, expires_at_sec)`)
    this.addSql(`create table if not exists chain_outcomes (
      chain_id integer not null,
      position_id blob not null,
      market_id blob not null,
      outcome integer not null,
      primary key (chain_id, position_id)
    ) strict, without rowid`)
    this.addSql(`create index if not exists chain_outcomes_of_market
      on chain_outcomes (market_id, outcome)`)
    this.addSql(`create table if not exists chain_assertions (
      chain_id integer not null,
      assertion_id blob not null,
      market_id blob not null,
      proposer blob not null,
      asserter blob not null,
      proposed_outcome integer not null,
      bond_e6 integer not null,
      asserted_at_sec integer not null,
      window_ends_at_sec integer not null,
      proposed_block integer not null,
      proposed_log_index integer not null,
      proposed_tx blob not null,
      disputed_block integer null,
      disputed_at_sec integer null,
      disputed_tx blob null,
      ended_as text null,
      ended_block integer null,
      ended_at_sec integer null,
      ended_tx blob null,
      primary key (chain_id, assertion_id)
    ) strict`)
    this.addSql(`create index if not exists chain_assertions_of_market
      on chain_assertions (market_id, proposed_block, proposed_log_index)`)
    this.addSql(`create index if not exists chain_assertions_open
      on chain_assertions (chain_id, ended_as, window_ends_at_sec)`)
    this.addSql(`create table if not exists chain_market_events (
      chain_id integer not null,
      block_number integer not null,
      log_index integer not null,
      market_id blob not null,
      event text not null,
      facts text not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index)
    ) strict`)
    this.addSql(`create index if not exists chain_market_events_of
      on chain_market_events (market_id, block_number, log_index)`)
    this.addSql(`create table if not exists chain_token_moves (
      chain_id integer not null,
      block_number integer not null,
      log_index integer not null,
      part integer not null,
      position_id blob not null,
      sender blob not null,
      receiver blob not null,
      amount_e6 integer not null,
      kind text not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index, part)
    ) strict`)
    this.addSql(`create index if not exists chain_token_moves_of
      on chain_token_moves (chain_id, position_id, block_number, log_index, part)`)
    this.addSql(`create index if not exists chain_token_moves_from
      on chain_token_moves (sender, chain_id, block_number, log_index, part)`)
    this.addSql(`create index if not exists chain_token_moves_to
      on chain_token_moves (receiver, chain_id, block_number, log_index, part)`)
    this.addSql(`create table if not exists chain_token_balances (
      chain_id integer not null,
      position_id blob not null,
      holder blob not null,
      balance_e6 integer not null,
      block_number integer not null,
      primary key (chain_id, position_id, holder)
    ) strict, without rowid`)
    this.addSql(`create index if not exists chain_token_balances_of
      on chain_token_balances (holder, chain_id, position_id)`)
    this.addSql(`create index if not exists chain_token_balances_by_size
      on chain_token_balances (chain_id, position_id, balance_e6)`)
    this.addSql(`create table if not exists chain_conversions (
      chain_id integer not null,
      block_number integer not null,
      log_index integer not null,
      kind text not null,
      holder blob not null,
      market_id blob not null,
      amount_e6 integer not null,
      index_sets text not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index)
    ) strict`)
    this.addSql(`create index if not exists chain_conversions_of_holder
      on chain_conversions (holder, chain_id, block_number, log_index)`)
    this.addSql(`create index if not exists chain_conversions_of_market
      on chain_conversions (market_id, holder, block_number, log_index)`)
    this.addSql(`create index if not exists chain_conversions_by_transaction
      on chain_conversions (tx_hash)`)
    this.addSql(`create table if not exists chain_trades (
      chain_id integer not null,
      block_number integer not null,
      log_index integer not null,
      trade_key blob not null,
      settled integer not null,
      market_id blob null,
      buyer blob null,
      seller blob null,
      buy_order_hash blob not null,
      sell_order_hash blob not null,
      outcome integer null,
      price_e6 integer null,
      size_e6 integer null,
      cost_e6 integer null,
      fault text not null,
      reason text not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index)
    ) strict`)
    this.addSql(`create index if not exists chain_trades_by_key
      on chain_trades (trade_key, block_number, log_index)`)
    this.addSql(`create index if not exists chain_trades_by_transaction
      on chain_trades (tx_hash)`)
    this.addSql(`create table if not exists chain_withdrawn_orders (
      chain_id integer not null,
      order_hash blob not null,
      trader blob not null,
      effective_at_sec integer not null,
      block_number integer not null,
      log_index integer not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, order_hash)
    ) strict`)
    this.addSql(`create index if not exists chain_withdrawn_orders_by_block
      on chain_withdrawn_orders (chain_id, block_number)`)
  }
}
