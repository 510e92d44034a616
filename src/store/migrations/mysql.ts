/** The migrations of the MySQL and MariaDB schema, in the order in which they run. Append only. */

import { MarketsOrdersTrades } from './mysql/001-markets-orders-trades.ts'

export const mysqlMigrations = [{ name: '001-markets-orders-trades', class: MarketsOrdersTrades }]
