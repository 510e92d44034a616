/**
 * Leases of the roles that one node at a time may play, for MySQL and MariaDB: who holds each, its epoch, until
 * when by the server's clock, and a count that every write under the lease moves.
 */

import { Migration } from '@mikro-orm/migrations'

export class Leases extends Migration {
  override up(): void {
    this.addSql(`create table if not exists leases (
      role varchar(64) character set ascii collate ascii_bin not null primary key,
      holder varchar(255) not null,
      epoch bigint not null,
      expires_at datetime(3) not null,
      writes bigint not null
    ) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin`)
  }
}
