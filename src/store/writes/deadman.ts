/**
 * Sets, clears and reads dead-man switches (timers that cancel all orders of an address). Each write can be repeated.
 */

import type { DeadmanSwitch } from '#domain/deadman.ts'
import type { Address } from '#domain/ids.ts'
import { type Database, read, transact } from '../engine/database.ts'

type Row = {
  readonly key_id: string
  readonly address: string
  readonly delegate: string | null
  readonly due_at_ms: number | string
}

/** Sets the key's switch, or renews it. Returns false if the key is unknown or revoked. */
export async function setDeadman(
  database: Database,
  { keyId, address, delegate, dueAtMs }: DeadmanSwitch,
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    await connection.execute(
      'delete from deadman_switches where key_id = ?',
      [keyId],
      'run',
      transaction,
    )
    const { affectedRows } = await connection.execute<{ affectedRows: number }>(
      `insert into deadman_switches (key_id, address, delegate, due_at_ms)
        select key_id, ?, ?, ? from api_keys where key_id = ? and revoked_at_ms is null`,
      [address, delegate ?? null, dueAtMs, keyId],
      'run',
      transaction,
    )
    return affectedRows > 0
  })
}

/** Clears the key's switch. */
export async function clearDeadman(
  database: Database,
  { keyId }: { readonly keyId: string },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    await connection.execute(
      'delete from deadman_switches where key_id = ?',
      [keyId],
      'run',
      transaction,
    )
    return true
  })
}

/** Clears switches that have fired, except those that were renewed meanwhile. */
export async function clearFiredDeadman(
  database: Database,
  { fired }: { readonly fired: readonly Pick<DeadmanSwitch, 'keyId' | 'dueAtMs'>[] },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    for (const { keyId, dueAtMs } of fired) {
      await connection.execute(
        'delete from deadman_switches where key_id = ? and due_at_ms = ?',
        [keyId, dueAtMs],
        'run',
        transaction,
      )
    }
    return true
  })
}

/** Returns the switches that are due before a time, the earliest first. */
export async function deadmanDue(
  database: Database,
  { beforeMs, limit }: { readonly beforeMs: number; readonly limit: number },
): Promise<DeadmanSwitch[]> {
  const rows = await read(database, (em) =>
    em.getConnection().execute<Row[]>(
      `select key_id, address, delegate, due_at_ms from deadman_switches where due_at_ms < ?
          order by due_at_ms, key_id limit ${limit}`,
      [beforeMs],
    ),
  )
  return rows.map((row) => ({
    keyId: row.key_id,
    address: row.address as Address,
    ...(row.delegate === null ? {} : { delegate: row.delegate as Address }),
    dueAtMs: Number(row.due_at_ms),
  }))
}
