/** Delegations according to the chain, and open orders that delegates signed. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './018-baseline.ts'

const TABLES: Readonly<Record<string, Table>> = {
  // The newest row of an account and a delegate counts. `markets` is a list of hashes without 0x; empty for all.
  chain_delegates: {
    columns: `chain_id bigint, account address, delegate address, until_sec bigint,
      settles_until_sec bigint, max_order_size_e6 bigint, max_open_notional_e6 bigint,
      markets text, block_number bigint, log_index bigint, tx_hash hash, at_sec bigint`,
    key: 'chain_id, block_number, log_index',
    indexes: { chain_delegates_of_account: '(chain_id, account, delegate)' },
  },
  delegated_orders: {
    columns: `order_hash hash, chain_id bigint, trader address, delegate address, price_e6 int,
      size_e6 bigint, expires_at_sec bigint, reserved_at_ms bigint`,
    key: 'order_hash',
    indexes: {
      delegated_orders_of_delegate: '(chain_id, trader, delegate)',
      delegated_orders_by_end: '(expires_at_sec)',
    },
  },
}

export const delegatesOf = (dialect: Dialect) =>
  class Delegates extends Migration {
    override up(): void {
      for (const [name, table] of Object.entries(TABLES)) {
        for (const statement of tableStatements(dialect, name, table)) this.addSql(statement)
      }
    }
  }
