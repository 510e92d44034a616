/**
 * Realised profits, for MySQL and MariaDB: of a holder in a market, and of a holder on a chain; decimal text
 * with a sign. The chains that were followed before are noted: `migrate` counts their profits.
 */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
/** Sums of amounts of 78 digits, with a sign. */
const SUM = 'varchar(90)'

export class Profits extends Migration {
  override up(): void {
    this.addSql(`create table if not exists position_profits (
      market_id binary(32) not null,
      holder binary(20) not null,
      chain_id bigint not null,
      profit_e6 ${SUM} not null,
      primary key (market_id, holder)
    ) ${TABLE}`)
    this.addSql(`create table if not exists holder_profits (
      chain_id bigint not null,
      holder binary(20) not null,
      profit_e6 ${SUM} not null,
      primary key (chain_id, holder)
    ) ${TABLE}`)
    this.addSql(`create table if not exists uncounted_profits (
      chain_id bigint not null primary key
    ) ${TABLE}`)
    this.addSql('insert ignore into uncounted_profits select chain_id from chain_cursors')
  }
}
