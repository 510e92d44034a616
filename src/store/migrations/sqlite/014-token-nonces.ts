/** Tokens that were used, for SQLite: one process has them in memory, so that nothing is written here. */

import { Migration } from '@mikro-orm/migrations'

export class TokenNonces extends Migration {
  override up(): void {
    this.addSql(`create table if not exists token_nonces (
      key_id text not null,
      nonce blob not null,
      claim blob not null,
      until_sec integer not null,
      primary key (key_id, nonce)
    ) strict, without rowid`)
    this.addSql('create index if not exists token_nonces_until on token_nonces (until_sec)')
  }
}
