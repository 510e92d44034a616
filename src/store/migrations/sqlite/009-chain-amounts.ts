/**
 * Amounts of the chain as decimal text, for SQLite: a chain's numbers have 256 bits, a column of integers
 * 64. `total_shares_e6` has leading zeros, so that text is in the order of the amounts. Beside it, events
 * of the chain that were set aside.
 */

import { Migration } from '@mikro-orm/migrations'

const AMOUNTS: Readonly<Record<string, readonly string[]>> = {
  chain_markets: ['start_price_e8', 'end_start_price_e8', 'end_price_e8'],
  chain_assertions: ['bond_e6'],
  chain_token_moves: ['amount_e6'],
  chain_token_balances: ['balance_e6'],
  chain_conversions: ['amount_e6'],
  chain_trades: ['size_e6', 'cost_e6'],
  positions: ['yes_shares_e6', 'no_shares_e6', 'total_shares_e6', 'yes_cost_e6', 'no_cost_e6'],
  market_holdings: ['locked_e6'],
  chain_holdings: ['locked_e6'],
}

/** No read goes by it, and text is in another order than the balances. */
const DROPPED_INDEX = 'chain_token_balances_by_size'

export class ChainAmounts extends Migration {
  override async up(): Promise<void> {
    // What stands behind tokens of strangers' conditions had been counted too.
    this.addSql(`delete from market_holdings
      where market_id not in (select market_id from chain_outcomes)`)
    for (const column of ['holders', 'locked_e6']) {
      this.addSql(`update chain_holdings set ${column} = (select coalesce(sum(m.${column}), 0)
        from market_holdings as m where m.chain_id = chain_holdings.chain_id)`)
    }
    for (const [table, columns] of Object.entries(AMOUNTS)) await this.widen(table, columns)
    this.addSql(`create table if not exists chain_set_aside (
      chain_id integer not null,
      block_number integer not null,
      log_index integer not null,
      event text not null,
      why text not null,
      tx_hash blob not null,
      at_sec integer not null,
      primary key (chain_id, block_number, log_index)
    ) strict, without rowid`)
  }

  /** A column keeps its type for ever here, so the table is made again with another, and filled. */
  private async widen(table: string, columns: readonly string[]): Promise<void> {
    const made = (await this.execute(
      `select type, name, sql from sqlite_master where tbl_name = '${table}' order by rowid`,
    )) as { type: string; name: string; sql: string | null }[]
    const names = (await this.execute(`select name from pragma_table_info('${table}')`)) as {
      name: string
    }[]
    let create = made.find(({ type }) => type === 'table')?.sql ?? ''
    create = create.replace(/(create table )\S+/i, `$1${table}_wide`)
    for (const column of columns) {
      create = create.replace(new RegExp(`\\b${column} integer\\b`), `${column} text`)
    }
    const values = names.map(({ name }) => {
      if (!columns.includes(name)) return name
      return name === 'total_shares_e6' ? `printf('%078d', ${name})` : `cast(${name} as text)`
    })
    this.addSql(create)
    this.addSql(`insert into ${table}_wide select ${values.join(', ')} from ${table}`)
    this.addSql(`drop table ${table}`)
    this.addSql(`alter table ${table}_wide rename to ${table}`)
    for (const { type, name, sql } of made) {
      if (type === 'index' && sql !== null && name !== DROPPED_INDEX) this.addSql(sql)
    }
  }
}
