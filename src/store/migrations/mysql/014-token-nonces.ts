/**
 * Tokens that were used, for MySQL and MariaDB, where several nodes take them: each until it has expired, with a
 * number of whoever claimed it.
 */

import { Migration } from '@mikro-orm/migrations'

export class TokenNonces extends Migration {
  override up(): void {
    this.addSql(`create table if not exists token_nonces (
      key_id varchar(36) not null,
      nonce binary(16) not null,
      claim binary(8) not null,
      until_sec bigint not null,
      primary key (key_id, nonce),
      key token_nonces_until (until_sec)
    ) engine = InnoDB default character set ascii collate ascii_bin`)
  }
}
