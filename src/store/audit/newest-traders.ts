/** Traders of the newest orders. */

import type { Address } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { hexOf } from '../engine/hex.ts'

/** Returns the traders of the newest `orders` orders. */
export async function newestTraders(database: Database, orders: number): Promise<Address[]> {
  const row = database.address.dialect === 'sqlite' ? 'rowid' : 'row_no'
  const rows = await read(database, () =>
    sqlConnection(database).execute<{ trader: Buffer }[]>(
      `select distinct trader from (select trader from orders order by ${row} desc limit ?) as newest`,
      [orders],
      'all',
    ),
  )
  return rows.map(({ trader }) => hexOf(trader) as Address)
}
