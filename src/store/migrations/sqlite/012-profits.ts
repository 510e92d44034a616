/**
 * Realised profits, for SQLite: of a holder in a market, and of a holder on a chain; decimal text with a
 * sign. The chains that were followed before are noted: `migrate` counts their profits.
 */

import { Migration } from '@mikro-orm/migrations'

export class Profits extends Migration {
  override up(): void {
    this.addSql(`create table if not exists position_profits (
      market_id blob not null,
      holder blob not null,
      chain_id integer not null,
      profit_e6 text not null,
      primary key (market_id, holder)
    ) strict, without rowid`)
    this.addSql(`create table if not exists holder_profits (
      chain_id integer not null,
      holder blob not null,
      profit_e6 text not null,
      primary key (chain_id, holder)
    ) strict, without rowid`)
    this.addSql(`create table if not exists uncounted_profits (
      chain_id integer not null primary key
    ) strict, without rowid`)
    this.addSql('insert or ignore into uncounted_profits select chain_id from chain_cursors')
  }
}
