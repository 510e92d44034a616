/** What the relayer sent for users, and the redemptions among it, for SQLite. */

import { Migration } from '@mikro-orm/migrations'

export class RelaysClaims extends Migration {
  override up(): void {
    this.addSql(`create table if not exists relays (
      relay_key blob not null primary key,
      chain_id integer not null,
      kind text not null,
      owner blob not null,
      status text not null,
      unfinished integer not null,
      attempt integer not null,
      tx_hash blob null,
      gas integer not null,
      reason text null,
      opened_at_ms integer not null,
      updated_at_ms integer not null
    ) strict`)
    this.addSql(`create index if not exists relays_unfinished
      on relays (chain_id, opened_at_ms) where unfinished = 1`)
    this.addSql(`create index if not exists relays_by_owner
      on relays (chain_id, owner, opened_at_ms, gas)`)
    this.addSql('create index if not exists relays_by_time on relays (chain_id, opened_at_ms, gas)')

    this.addSql(`create table if not exists claims (
      relay_key blob not null,
      item integer not null,
      chain_id integer not null,
      user_address blob not null,
      market_id blob not null,
      market_address blob not null,
      payout_e6 integer not null,
      winning_outcome integer not null,
      status text not null,
      tx_hash blob null,
      reason text null,
      submitted_at_ms integer not null,
      updated_at_ms integer not null,
      primary key (relay_key, item)
    ) strict`)
    this.addSql(`create index if not exists claims_by_status
      on claims (status, submitted_at_ms, item)`)
    this.addSql(`create index if not exists claims_by_user
      on claims (user_address, chain_id, submitted_at_ms, item)`)
  }
}
