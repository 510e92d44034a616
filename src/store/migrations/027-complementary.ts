/** Adds the matching rule of a market and the kind of a trade. Empty means an ordinary market, or an ordinary trade. */

import { Migration } from '@mikro-orm/migrations'
import type { Dialect } from './018-baseline.ts'

const ADDED: readonly (readonly [table: string, column: string])[] = [
  ['markets', 'matching'],
  ['chain_markets', 'matching'],
  ['trades', 'kind'],
]

export const complementaryOf = (dialect: Dialect) =>
  class Complementary extends Migration {
    override async up(): Promise<void> {
      const type = dialect === 'mysql' ? 'varchar(16) null' : 'text'
      for (const [table, column] of ADDED) {
        // A migration that was killed before it was recorded may have added some columns.
        if (await this.#has(table, column)) continue
        this.addSql(`alter table ${table} add column ${column} ${type}`)
      }
    }

    async #has(table: string, column: string): Promise<boolean> {
      const found = await this.execute(
        dialect === 'sqlite'
          ? `select 1 from pragma_table_info('${table}') where name = '${column}'`
          : `select 1 from information_schema.columns where table_schema = database()
              and table_name = '${table}' and column_name = '${column}'`,
      )
      return found.length > 0
    }
  }
