/** Sets, clears and reads dead-man switches. Each write can be repeated. */

import type { DeadmanSwitch } from '#domain/deadman.ts'
import type { Address } from '#domain/ids.ts'
import { type Database, read, transact } from '../engine/database.ts'

type Row = {
  readonly key_id: string
  readonly address: string
  readonly delegate: string | null
  readonly due_at_ms: number | string
}

/** Sets the key's switch, or renews it. */
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
    await connection.execute(
      'insert into deadman_switches (key_id, address, delegate, due_at_ms) values (?, ?, ?, ?)',
      [keyId, address, delegate ?? null, dueAtMs],
      'run',
      transaction,
    )
    return true
  })
}

/** Clears the key's switch; with `dueAtMs` only if it was not renewed meanwhile. */
export async function clearDeadman(
  database: Database,
  { keyId, dueAtMs }: { readonly keyId: string; readonly dueAtMs?: number },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const renewed = dueAtMs === undefined ? '' : ' and due_at_ms = ?'
    await connection.execute(
      `delete from deadman_switches where key_id = ?${renewed}`,
      dueAtMs === undefined ? [keyId] : [keyId, dueAtMs],
      'run',
      transaction,
    )
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
