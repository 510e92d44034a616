/**
 * The fence of a lease: what a transaction passes right before it commits. It moves a count in the row of the
 * lease, only where that still has the epoch that the writer was given. So a writer whose lease another node
 * has taken commits nothing; and who takes a lease waits for a commit that has passed, and reads it afterwards.
 *
 * It is a write and not a look with a lock, because a cluster of servers compares writes only. It is at the end,
 * because the row is locked from then until the commit: a long transaction must not keep its own node from
 * renewing the lease.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { Fault } from '#domain/fault.ts'

/** The right to play a role, as one holder has it: whoever holds it next has a higher epoch. */
export type Lease = { readonly role: string; readonly epoch: number }

export const LEASE_LOST = 'LEASE_LOST'

export async function passFence(
  { role, epoch }: Lease,
  connection: AbstractSqlConnection,
  transaction: Transaction,
): Promise<void> {
  const { affectedRows } = await connection.execute<QueryResult>(
    'update leases set writes = writes + 1 where role = ? and epoch = ?',
    [role, epoch],
    'run',
    transaction,
  )
  if (affectedRows === 1) return
  throw new Fault(LEASE_LOST, `another node has taken the lease of ${role} after epoch ${epoch}`, {
    // The same write, under the lease that its role has by then, may well be right.
    retryable: true,
  })
}
