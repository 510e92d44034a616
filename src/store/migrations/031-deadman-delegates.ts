/** Adds the delegate that set a dead-man switch for an account. Empty means that the account's own key did. */

import type { Dialect } from './018-baseline.ts'
import { addingColumns } from './added-columns.ts'

export const deadmanDelegatesOf = (dialect: Dialect) =>
  addingColumns(dialect, [
    {
      table: 'deadman_switches',
      column: 'delegate',
      type: { sqlite: 'text', mysql: 'char(42) null' },
    },
  ])
