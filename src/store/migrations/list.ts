/** The migrations in the order in which they run. Append only. */

import { baselineOf } from './032-baseline.ts'

export const migrationsOf = (dialect: 'sqlite' | 'mysql') => [
  { name: '032-baseline', class: baselineOf(dialect) },
]
