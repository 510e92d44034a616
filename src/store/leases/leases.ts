/**
 * Leases of roles: only one node at a time may do the work of a role. Each lease is a row with its holder,
 * its epoch and its expiry. The expiry is measured by the clock of the database server, the only clock that
 * all nodes share. Taking a lease raises its epoch, in one statement; if several nodes try, only one
 * succeeds. Writes under an earlier epoch are not committed (`engine/fence.ts`).
 *
 * A holder may take its own lease again at any time. A node's name belongs to one process, so an earlier
 * process with that name has ended, or must not write any more.
 */

import type { QueryResult } from '@mikro-orm/core'
import { type Database, read, transact } from '../engine/database.ts'
import type { Lease } from '../engine/fence.ts'

type LeaseWish = {
  readonly role: string
  readonly holder: string
  /** Time until the lease expires, unless it is renewed. */
  readonly forMs: number
}

/** Result of taking a lease: its new epoch, or the node that holds it. */
type Taken = { readonly epoch: number } | { readonly heldBy: string }

const UNTIL = 'utc_timestamp(3) + interval ? microsecond'
const US_PER_MS = 1_000

/** Takes the lease if it is free, has expired, or belongs to this holder. */
export async function takeLease(
  database: Database,
  { role, holder, forMs }: LeaseWish,
): Promise<Taken> {
  const micros = forMs * US_PER_MS
  // Run each statement in its own transaction. In a shared transaction, two nodes that request a new lease at the same
  // time would deadlock.
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

/**
 * Extends the leases. Returns the leases that are still held, including expired leases that no other node has
 * taken.
 */
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

/** Releases the leases, so that another node need not wait for their expiry. */
export async function giveLeases(database: Database, leases: readonly Lease[]): Promise<void> {
  // The epoch rises too, so later writes of this holder are rejected.
  await change(database, leases, `epoch = epoch + 1, expires_at = utc_timestamp(3)`, [])
}

/**
 * Changes the rows of the leases that still have the given epoch, which means that no other node has taken them.
 * Returns the number of changed rows.
 */
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
