/**
 * The fence of a lease: a check that a transaction makes right before it commits. The check increments a counter in the
 * lease's row, but only if the row still has the writer's epoch. So once another node has taken the lease, the writer
 * commits nothing. If a transaction has passed the fence, a node that takes the lease waits until that transaction
 * commits and then reads its result. The fence is a write and not a locking read, because a Galera cluster detects only
 * conflicts between writes. The fence is the last statement, because it locks the lease's row until the commit. An
 * earlier lock in a long transaction would prevent the node from renewing its own lease.
 */

import type { QueryResult, Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { Fault } from '#domain/fault.ts'

/** The right of one holder to a role; the next holder has a higher epoch. */
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
    // Retryable: the same write may succeed under the role's current lease.
    retryable: true,
  })
}
