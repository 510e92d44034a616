/** The migrations of the SQLite schema, in the order in which they run. Append only. */

import { MarketsOrdersTrades } from './sqlite/001-markets-orders-trades.ts'
import { ApiKeys } from './sqlite/002-api-keys.ts'

export const sqliteMigrations = [
  { name: '001-markets-orders-trades', class: MarketsOrdersTrades },
  { name: '002-api-keys', class: ApiKeys },
]
