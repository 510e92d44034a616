/** Adds the matching rule of a quick market, so that its contract gets the rule of its book. Empty means `same-outcome`. */

import type { Dialect } from './018-baseline.ts'
import { addingColumns } from './added-columns.ts'

export const quickMatchingOf = (dialect: Dialect) =>
  addingColumns(dialect, [
    {
      table: 'quick_markets',
      column: 'matching',
      type: { sqlite: 'text', mysql: 'varchar(16) null' },
    },
  ])
