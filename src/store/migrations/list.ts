/** The migrations, in the order in which they run. Append only. */

import { baselineOf } from './018-baseline.ts'

export const migrationsOf = (dialect: 'sqlite' | 'mysql') => [
  { name: '018-baseline', class: baselineOf(dialect) },
]
