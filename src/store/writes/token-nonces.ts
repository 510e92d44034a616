/**
 * Records which bearer tokens were used, for nodes that share a database. A node claims a token by inserting a row for
 * it. Only one node's insert can succeed. Each claim has its own number. A caller that receives no answer repeats the
 * claim with the same number. If the token's row has that number, the earlier insert succeeded.
 *
 * Uses are recorded only since the first call of `claimsSince`. So tokens that were issued before that call count as
 * used.
 */

import type { QueryResult } from '@mikro-orm/core'
import { TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { type Database, sqlConnection, transact } from '../engine/database.ts'
import { storeFault } from '../engine/store-fault.ts'

export type NonceClaim = {
  readonly keyId: string
  /** 32 hex digits. */
  readonly nonce: string
  /** A unique number, by which a caller that repeats a claim recognises its own row. */
  readonly claim: Buffer
  readonly issuedSec: number
  readonly untilSec: number
}

type ClaimRow = { readonly key_id: string; readonly nonce: Buffer; readonly claim: Buffer }

/** Key of a special row that stores the time since which uses are recorded. No API key has an empty id. */
const SINCE = { keyId: '', nonce: '0'.repeat(32) }
/** Maximum number of rows per delete statement, so that locks are short. */
const FORGOTTEN_MAX = 5_000

/** Returns the time since which token uses are recorded. The first call starts the recording. */
export async function claimsSince(database: Database, nowSec: number): Promise<number> {
  await insert(database, [
    { ...SINCE, claim: Buffer.alloc(8), issuedSec: nowSec, untilSec: nowSec },
  ])
  try {
    const [row] = await sqlConnection(database).execute<{ until_sec: number | string }[]>(
      'select until_sec from token_nonces where key_id = ? and nonce = ?',
      [SINCE.keyId, Buffer.from(SINCE.nonce, 'hex')],
    )
    return Number(row?.until_sec ?? nowSec)
  } catch (error) {
    throw storeFault(error)
  }
}

/** Claims tokens. Returns, for each claim in order, true if no other claim has used its token. */
export async function claimNonces(
  database: Database,
  claims: readonly NonceClaim[],
): Promise<boolean[]> {
  // Insert in sorted order. Otherwise the inserts of two nodes could deadlock.
  const sorted = claims.toSorted((a, b) => (rowKey(a) < rowKey(b) ? -1 : 1))
  if ((await insert(database, sorted)) === claims.length) return claims.map(() => true)
  const marks = claims.map(() => '(?, ?)').join(', ')
  const values = claims.flatMap(({ keyId, nonce }) => [keyId, Buffer.from(nonce, 'hex')])
  const rows = await transact(database, (transaction, connection) =>
    connection.execute<ClaimRow[]>(
      `select key_id, nonce, claim from token_nonces where (key_id, nonce) in (${marks})`,
      values,
      'all',
      transaction,
    ),
  )
  const winners = new Map(
    rows.map((row) => [`${row.key_id}:${row.nonce.toString('hex')}`, row.claim]),
  )
  return claims.map((each) => winners.get(rowKey(each))?.equals(each.claim) === true)
}

/**
 * Deletes tokens that expired before `beforeSec`, in small transactions, and returns their number. All nodes use these
 * rows. So the statement also checks the database server's clock, in case this node's clock is fast.
 */
export async function forgetNonces(database: Database, beforeSec: number): Promise<number> {
  for (let forgotten = 0; ; ) {
    const step = await forgetSome(database, beforeSec)
    forgotten += step
    if (step < FORGOTTEN_MAX) return forgotten
  }
}

async function forgetSome(database: Database, beforeSec: number): Promise<number> {
  const { affectedRows } = await transact(database, (transaction, connection) =>
    connection.execute<QueryResult>(
      `delete from token_nonces
        where until_sec < least(?, unix_timestamp() - ?) and key_id <> ? limit ${FORGOTTEN_MAX}`,
      [beforeSec, TOKEN_LIFE_SEC, SINCE.keyId],
      'run',
      transaction,
    ),
  )
  return affectedRows
}

function rowKey({ keyId, nonce }: Pick<NonceClaim, 'keyId' | 'nonce'>): string {
  return `${keyId}:${nonce}`
}

/** Returns the number of new rows. */
async function insert(database: Database, claims: readonly NonceClaim[]): Promise<number> {
  const marks = claims.map(() => '(?, ?, ?, ?)').join(', ')
  const { affectedRows } = await transact(database, (transaction, connection) =>
    connection.execute<QueryResult>(
      `insert ignore into token_nonces (key_id, nonce, claim, until_sec) values ${marks}`,
      claims.flatMap(({ keyId, nonce, claim, untilSec }) => [
        keyId,
        Buffer.from(nonce, 'hex'),
        claim,
        untilSec,
      ]),
      'run',
      transaction,
    ),
  )
  return affectedRows
}
