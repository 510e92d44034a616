/** API keys, for MySQL and MariaDB. */

import { Migration } from '@mikro-orm/migrations'

export class ApiKeys extends Migration {
  override up(): void {
    this.addSql(`create table if not exists api_keys (
      key_id varchar(64) not null primary key,
      address char(42) not null,
      name varchar(100) character set utf8mb4 collate utf8mb4_bin not null,
      public_key char(64) not null,
      created_at_ms bigint not null,
      expires_at_sec bigint null,
      revoked_at_ms bigint null,
      index api_keys_active (address, revoked_at_ms, created_at_ms, key_id)
    ) engine = InnoDB default character set ascii collate ascii_bin`)
  }
}
