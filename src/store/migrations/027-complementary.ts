/** Adds the matching rule of a market and the kind of a trade. Empty means an ordinary market, or an ordinary trade. */

import type { Dialect } from './018-baseline.ts'
import { addingColumns } from './added-columns.ts'

const type = { sqlite: 'text', mysql: 'varchar(16) null' }

export const complementaryOf = (dialect: Dialect) =>
  addingColumns(dialect, [
    { table: 'markets', column: 'matching', type },
    { table: 'chain_markets', column: 'matching', type },
    { table: 'trades', column: 'kind', type },
  ])
