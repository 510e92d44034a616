/** Registers, finds and revokes API keys. Only the store thread registers and revokes. */

import type { Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import { API_KEY_ID, type ApiKey } from '#domain/api-key.ts'
import type { Address } from '#domain/ids.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { ApiKeyEntity } from '../entities/api-key.ts'

export async function apiKeyById(database: Database, id: string): Promise<ApiKey | undefined> {
  // Check the id here, because MySQL rejects characters beyond ASCII with an error, and ignores trailing white space.
  if (!API_KEY_ID.test(id)) return undefined
  const row = await read(database, (em) =>
    em.findOne(ApiKeyEntity, { id }, { disableIdentityMap: true }),
  )
  if (row === null) return undefined
  return {
    id: row.id,
    address: row.address as Address,
    name: row.name,
    publicKey: row.publicKey,
    createdAtMs: row.createdAtMs,
    expiresAtSec: row.expiresAtSec ?? null,
    revokedAtMs: row.revokedAtMs ?? null,
  }
}

/** Adds a key. If the address then has more than `activeMax` active keys, revokes the oldest and returns their ids. */
export async function registerApiKey(
  database: Database,
  key: ApiKey,
  activeMax: number,
): Promise<string[]> {
  return transact(database, async (transaction, connection) => {
    await connection.execute(
      `insert into api_keys
        (key_id, address, name, public_key, created_at_ms, expires_at_sec, revoked_at_ms)
        values (?, ?, ?, ?, ?, ?, null)`,
      [key.id, key.address, key.name, key.publicKey, key.createdAtMs, key.expiresAtSec],
      'run',
      transaction,
    )
    const active = await connection.execute<{ key_id: string }[]>(
      `select key_id from api_keys where address = ? and revoked_at_ms is null
        and (expires_at_sec is null or expires_at_sec > ?)
        order by created_at_ms desc, key_id desc`,
      [key.address, Math.floor(key.createdAtMs / 1_000)],
      'all',
      transaction,
    )
    // Keep the key that was just registered, even if other keys have later timestamps.
    const others = active.map((row) => row.key_id).filter((id) => id !== key.id)
    const surplus = others.slice(activeMax - 1)
    for (const id of surplus) await revoke(connection, transaction, id, key.createdAtMs)
    return surplus
  })
}

/** Revokes a key permanently; returns false if it does not exist. Revoking again changes nothing. */
export async function revokeApiKey(database: Database, id: string, atMs: number): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const found = await connection.execute<{ key_id: string }[]>(
      'select key_id from api_keys where key_id = ?',
      [id],
      'all',
      transaction,
    )
    if (found.length === 0) return false
    await revoke(connection, transaction, id, atMs)
    return true
  })
}

/** Revokes a key, and removes its dead-man switch, which only the key could renew or turn off. */
async function revoke(
  connection: AbstractSqlConnection,
  transaction: Transaction,
  id: string,
  atMs: number,
): Promise<void> {
  await connection.execute(
    'update api_keys set revoked_at_ms = ? where key_id = ? and revoked_at_ms is null',
    [atMs, id],
    'run',
    transaction,
  )
  await connection.execute(
    'delete from deadman_switches where key_id = ?',
    [id],
    'run',
    transaction,
  )
}
