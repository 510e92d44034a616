/**
 * Adds the side at fault of a failed trade (empty means none, or a trade that failed before this version), and how many
 * submissions of a delegate's order were not refused.
 */

import type { Dialect } from './018-baseline.ts'
import { addingColumns } from './added-columns.ts'

export const faultsAndSubmissionsOf = (dialect: Dialect) =>
  addingColumns(dialect, [
    { table: 'trades', column: 'fault', type: { sqlite: 'text', mysql: 'varchar(16) null' } },
    {
      table: 'delegated_orders',
      column: 'submissions',
      type: { sqlite: 'integer not null default 1', mysql: 'int not null default 1' },
    },
  ])
