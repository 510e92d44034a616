/**
 * Amounts of the chain as decimal text, for MySQL and MariaDB: a chain's numbers have 256 bits, and 78
 * digits are more than a `decimal` has. `total_shares_e6` has leading zeros, so that text is in the order
 * of the amounts. Beside it, events of the chain that were set aside.
 */

import { Migration } from '@mikro-orm/migrations'

const TABLE = 'engine = InnoDB default character set ascii collate ascii_bin'
const WORDS = ' character set utf8mb4 collate utf8mb4_bin'
/** With a sign. */
const AMOUNT = 'varchar(79)'

const AMOUNTS: Readonly<Record<string, readonly string[]>> = {
  chain_assertions: ['bond_e6'],
  chain_token_moves: ['amount_e6'],
  chain_token_balances: ['balance_e6'],
  chain_conversions: ['amount_e6'],
  positions: ['yes_shares_e6', 'no_shares_e6', 'total_shares_e6', 'yes_cost_e6', 'no_cost_e6'],
  market_holdings: ['locked_e6'],
  chain_holdings: ['locked_e6'],
}

const AMOUNTS_OR_NULL: Readonly<Record<string, readonly string[]>> = {
  chain_markets: ['start_price_e8', 'end_start_price_e8', 'end_price_e8'],
  chain_trades: ['size_e6', 'cost_e6'],
}

export class ChainAmounts extends Migration {
  override async up(): Promise<void> {
    // No read goes by it, and text is in another order than the balances.
    const index = 'chain_token_balances_by_size'
    const found: unknown[] = await this.execute(
      `select 1 from information_schema.statistics where table_schema = database()
        and table_name = 'chain_token_balances' and index_name = '${index}' limit 1`,
    )
    if (found.length > 0) this.addSql(`drop index ${index} on chain_token_balances`)
    // What stands behind tokens of strangers' conditions had been counted too.
    this.addSql(`delete from market_holdings
      where market_id not in (select market_id from chain_outcomes)`)
    for (const column of ['holders', 'locked_e6']) {
      this.addSql(`update chain_holdings set ${column} = (
        select cast(coalesce(sum(cast(m.${column} as decimal(65, 0))), 0) as char)
          from market_holdings as m where m.chain_id = chain_holdings.chain_id)`)
    }
    for (const [null_, tables] of [
      ['not null', AMOUNTS],
      ['null', AMOUNTS_OR_NULL],
    ] as const) {
      for (const [table, columns] of Object.entries(tables)) {
        const changes = columns.map((column) => `modify ${column} ${AMOUNT} ${null_}`)
        this.addSql(`alter table ${table} ${changes.join(', ')}`)
      }
    }
    this.addSql(`alter table chain_markets modify payouts varchar(160)${WORDS} null`)
    this.addSql(`update positions set total_shares_e6 = lpad(total_shares_e6, 78, '0')`)
    this.addSql(`create table if not exists chain_set_aside (
      chain_id bigint not null,
      block_number bigint not null,
      log_index bigint not null,
      event varchar(64) not null,
      why varchar(256)${WORDS} not null,
      tx_hash binary(32) not null,
      at_sec bigint not null,
      primary key (chain_id, block_number, log_index)
    ) ${TABLE}`)
  }
}
