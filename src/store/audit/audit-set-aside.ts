/**
 * Lists the set-aside events of all chains: events that the indexer could not decode or store. Set-aside events change
 * no table, so the audit compares nothing here.
 */

import type { SetAside } from '#domain/chain-event.ts'
import { setAsideOf } from '../chain-index/set-aside.ts'
import { type Database, transact } from '../engine/database.ts'
import { statements } from '../engine/statements.ts'

export async function auditSetAside(
  database: Database,
): Promise<(SetAside & { readonly chainId: number })[]> {
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const chains = await sql.all<{ chain_id: number | string }>(
      'select chain_id from chain_cursors order by chain_id',
      [],
    )
    const all: (SetAside & { chainId: number })[] = []
    for (const { chain_id } of chains) {
      const chainId = Number(chain_id)
      for (const event of await setAsideOf(sql, chainId)) all.push({ ...event, chainId })
    }
    return all
  })
}
