/** Migrations that add columns to existing tables. */

import { Migration } from '@mikro-orm/migrations'
import type { Dialect } from './018-baseline.ts'

type AddedColumn = {
  readonly table: string
  readonly column: string
  readonly type: Readonly<Record<Dialect, string>>
}

/** Returns a migration that adds the columns that are missing: an earlier run may have been killed before its end. */
export const addingColumns = (dialect: Dialect, added: readonly AddedColumn[]) =>
  class AddedColumns extends Migration {
    override async up(): Promise<void> {
      for (const { table, column, type } of added) {
        if (await this.#has(table, column)) continue
        this.addSql(`alter table ${table} add column ${column} ${type[dialect]}`)
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
