/**
 * Transactions of the exchange's own keys, for SQLite: one row per nonce, and every hash that was
 * ever signed for it. The index holds only what is open.
 */

import { Migration } from '@mikro-orm/migrations'

export class Transactions extends Migration {
  override up(): void {
    this.addSql(`create table if not exists transactions (
      chain_id integer not null,
      sender text not null,
      nonce integer not null,
      revision integer not null,
      purpose text not null,
      reference text not null,
      raw text not null,
      hashes text not null,
      blanks text not null,
      max_fee_per_gas text not null,
      max_priority_fee_per_gas text not null,
      state text not null,
      tx_hash text null,
      block_number integer null,
      block_hash text null,
      gas_used integer null,
      error text not null,
      signed_at_ms integer not null,
      updated_at_ms integer not null,
      finished_at_ms integer null,
      primary key (chain_id, sender, nonce)
    ) strict, without rowid`)
    this.addSql(`create index if not exists transactions_open
      on transactions (chain_id, sender, nonce) where state = 'open'`)
    this.addSql(`create index if not exists transactions_by_block
      on transactions (chain_id, sender, block_number) where block_number is not null`)
    this.addSql(`create table if not exists transaction_hashes (
      tx_hash text not null primary key,
      chain_id integer not null,
      sender text not null,
      nonce integer not null
    ) strict, without rowid`)
  }
}
