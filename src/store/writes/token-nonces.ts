/**
 * Which tokens were used, where several nodes take them. A claim is an insert that only one can win, whichever
 * node it is on. Each claim has a number of its own, so that one whose answer was lost can be asked again: who
 * finds its own number has won before.
 *
 * What was used before anybody wrote it down is not known: tokens from before the first claim count as used.
 */

import type { QueryResult } from '@mikro-orm/core'
import { TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { type Database, sqlConnection, transact } from '../engine/database.ts'
import { storeFault } from '../engine/store-fault.ts'

export type NonceClaim = {
  readonly keyId: string
  /** 32 hex digits. */
  readonly nonce: string
  /** A number that nobody else has. */
  readonly claim: Buffer
  readonly issuedSec: number
  readonly untilSec: number
}

type ClaimRow = { readonly key_id: string; readonly nonce: Buffer; readonly claim: Buffer }

/** No key has this id: the row says since when uses are written down. */
const SINCE = { keyId: '', nonce: '0'.repeat(32) }
/** Rows of one statement that forgets: locks are held for a short time only. */
const FORGOTTEN_MAX = 5_000

/** Since when uses are written down; from now on where that has just begun. */
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

/** Which of the tokens were not used before, in the order of the claims. */
export async function claimNonces(
  database: Database,
  claims: readonly NonceClaim[],
): Promise<boolean[]> {
  // In one order on all nodes, so that none waits for one that waits for it.
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
 * Forgets tokens that have expired before this, some in each transaction; answers how many. It is for all nodes that
 * they are forgotten, so one whose clock is ahead forgets no more than the server's clock allows.
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

/** Answers how many of the rows were new. */
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
