/** Adds the table of labels and groups. Only orders that have one have a row, so other orders cost nothing. */

import { Migration } from '@mikro-orm/migrations'
import { type Dialect, type Table, tableStatements } from './018-baseline.ts'

const ORDER_TAGS: Table = {
  columns: 'order_hash hash, label varchar(32) null, order_group varchar(32) null',
  key: 'order_hash',
  numbered: 'order_tags_by_hash',
}

export const orderTagsOf = (dialect: Dialect) =>
  class OrderTags extends Migration {
    override up(): void {
      for (const statement of tableStatements(dialect, 'order_tags', ORDER_TAGS)) {
        this.addSql(statement)
      }
    }
  }
