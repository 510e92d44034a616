/** Adds the table of dead-man switches: when the orders of an API key's address are cancelled unless it is renewed. */

import { Migration } from '@mikro-orm/migrations'

const COLUMNS = {
  sqlite: 'key_id text not null primary key, address text not null, due_at_ms integer not null',
  mysql:
    'key_id varchar(64) not null primary key, address char(42) not null, due_at_ms bigint not null, index deadman_switches_due (due_at_ms)',
}

export const deadmanOf = (dialect: 'sqlite' | 'mysql') =>
  class Deadman extends Migration {
    override up(): void {
      const table = `create table if not exists deadman_switches (${COLUMNS[dialect]})`
      if (dialect === 'mysql') {
        this.addSql(`${table} engine = InnoDB default character set ascii collate ascii_bin`)
        return
      }
      this.addSql(`${table} strict, without rowid`)
      this.addSql('create index if not exists deadman_switches_due on deadman_switches (due_at_ms)')
    }
  }
