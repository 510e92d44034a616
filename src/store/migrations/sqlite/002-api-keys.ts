/** API keys, for SQLite. The index holds only keys that are active. */

import { Migration } from '@mikro-orm/migrations'

export class ApiKeys extends Migration {
  override up(): void {
    this.addSql(`create table if not exists api_keys (
      key_id text not null primary key,
      address text not null,
      name text not null,
      public_key text not null,
      created_at_ms integer not null,
      expires_at_sec integer null,
      revoked_at_ms integer null
    ) strict`)
    this.addSql(`create index if not exists api_keys_active
      on api_keys (address, created_at_ms, key_id) where revoked_at_ms is null`)
  }
}
