/**
 * Leases, for SQLite: nobody takes one there, since one process owns the file. The table is there so that both
 * dialects have the same ones.
 */

import { Migration } from '@mikro-orm/migrations'

export class Leases extends Migration {
  override up(): void {
    this.addSql(`create table if not exists leases (
      role text not null primary key,
      holder text not null,
      epoch integer not null,
      expires_at text not null,
      writes integer not null
    ) strict, without rowid`)
  }
}
