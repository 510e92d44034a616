/** Adds the newest checkpoint of each public log that witnesses have cosigned. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, tableStatements } from './018-baseline.ts'

const TABLE = {
  columns: 'log_partition smallint, size bigint, checkpoint words',
  key: 'log_partition',
}

export const cosignedOf = (dialect: Dialect) =>
  class Cosigned extends Migration {
    override up(): void {
      for (const statement of tableStatements(dialect, 'public_cosigned', TABLE)) {
        this.addSql(statement)
      }
    }
  }
