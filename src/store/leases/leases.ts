/**
 * The leases of the roles that one node at a time may play. Each is a row: who holds it, its epoch, and until
 * when by the clock of the database server, the only clock that all nodes have in common. Taking one raises the
 * epoch, in one statement that only one of several takers can win; what is written under an earlier epoch does
 * not pass the fence (`engine/fence.ts`).
 *
 * A holder may take its own lease again at any time: the name of a node stands for one process, so whatever has
 * it from before is gone, or is to be kept out.
 */

import type { QueryResult } from '@mikro-orm/core'
import { type Database, read, transact } from '../engine/database.ts'
import type { Lease } from '../engine/fence.ts'

type LeaseWish = {
  readonly role: string
  readonly holder: string
  /** For how long it is held if nothing is heard of the holder. */
  readonly forMs: number
}

/** The epoch of the lease that was taken, or who holds it. */
type Taken = { readonly epoch: number } | { readonly heldBy: string }

const UNTIL = 'utc_timestamp(3) + interval ? microsecond'
const US_PER_MS = 1_000

/** Takes the lease where nobody has it, where it has run out, or where this holder had it before. */
export async function takeLease(
  database: Database,
  { role, holder, forMs }: LeaseWish,
): Promise<Taken> {
  const micros = forMs * US_PER_MS
  // Two statements and no transaction around them: two takers of a new lease would lock each other out.
  const taken = await run(
    database,
    `update leases set epoch = last_insert_id(epoch + 1), holder = ?, expires_at = ${UNTIL}
      where role = ? and (expires_at <= utc_timestamp(3) or holder = ?)`,
    [holder, micros, role, holder],
  )
  if (taken.affectedRows === 1) return { epoch: Number(taken.insertId) }
  const made = await run(
    database,
    `insert ignore into leases (role, holder, epoch, expires_at, writes)
      values (?, ?, 1, ${UNTIL}, 0)`,
    [role, holder, micros],
  )
  if (made.affectedRows === 1) return { epoch: 1 }
  const [row] = await rowsOf(database, [role])
  return { heldBy: row?.holder ?? '' }
}

/** Holds the leases for longer; answers those that are still held, also such as had run out meanwhile. */
export async function renewLeases(
  database: Database,
  leases: readonly Lease[],
  forMs: number,
): Promise<Lease[]> {
  if (leases.length === 0) return []
  const renewed = await change(database, leases, `expires_at = ${UNTIL}`, [forMs * US_PER_MS])
  if (renewed === leases.length) return [...leases]
  const rows = await rowsOf(
    database,
    leases.map(({ role }) => role),
  )
  const epochs = new Map(rows.map(({ role, epoch }) => [role, Number(epoch)]))
  return leases.filter(({ role, epoch }) => epochs.get(role) === epoch)
}

/** Gives the leases up, so that another node need not wait until they have run out. */
export async function giveLeases(database: Database, leases: readonly Lease[]): Promise<void> {
  // The epoch rises too: whatever the holder has left behind is kept out from now on.
  await change(database, leases, `epoch = epoch + 1, expires_at = utc_timestamp(3)`, [])
}

/** Changes the rows that still have their epoch, and answers how many. */
async function change(
  database: Database,
  leases: readonly Lease[],
  what: string,
  values: readonly number[],
): Promise<number> {
  if (leases.length === 0) return 0
  const own = leases.map(() => '(role = ? and epoch = ?)').join(' or ')
  const { affectedRows } = await run(database, `update leases set ${what} where ${own}`, [
    ...values,
    ...leases.flatMap(({ role, epoch }) => [role, epoch]),
  ])
  return affectedRows
}

function run(
  database: Database,
  sql: string,
  values: readonly (string | number)[],
): Promise<QueryResult> {
  return transact(database, (transaction, connection) =>
    connection.execute<QueryResult>(sql, [...values], 'run', transaction),
  )
}

type LeaseRow = { readonly role: string; readonly holder: string; readonly epoch: number | string }

function rowsOf(database: Database, roles: readonly string[]): Promise<LeaseRow[]> {
  return read(database, (em) =>
    em
      .getConnection()
      .execute<LeaseRow[]>(
        `select role, holder, epoch from leases where role in (${roles.map(() => '?').join(', ')})`,
        [...roles],
        'all',
      ),
  )
}
