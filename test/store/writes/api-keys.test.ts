import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, it } from 'node:test'
import type { ApiKey } from '#domain/api-key.ts'
import type { Address } from '#domain/ids.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { apiKeyById, registerApiKey, revokeApiKey } from '#store/writes/api-keys.ts'
import { onBothDatabases } from '../../support/databases.ts'

const NOW_MS = 1_800_000_000_000
const NOW_SEC = NOW_MS / 1_000

let addresses = 0
const freshAddress = () => `0x${(++addresses).toString(16).padStart(40, '0')}` as Address

function keyOf(fields: Partial<ApiKey> = {}): ApiKey {
  return {
    id: randomUUID(),
    address: freshAddress(),
    name: '',
    publicKey: 'ab'.repeat(32),
    createdAtMs: NOW_MS,
    expiresAtSec: null,
    revokedAtMs: null,
    ...fields,
  }
}

await onBothDatabases('API keys', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  const revokedOf = async (key: ApiKey) => (await apiKeyById(database, key.id))?.revokedAtMs

  it('a registered key is returned unchanged', async () => {
    for (const key of [
      keyOf(),
      keyOf({ name: 'бот 🤖 of "O\'Brien" \\', expiresAtSec: Number.MAX_SAFE_INTEGER }),
      keyOf({ name: '🤖'.repeat(50), expiresAtSec: 1 }),
    ]) {
      assert.deepEqual(await registerApiKey(database, key, 20), [])
      assert.deepEqual(await apiKeyById(database, key.id), key)
    }
  })

  it('key ids are distinguished by every character', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    for (const id of [key.id.toUpperCase(), key.id.slice(0, -1), `${key.id}x`, '', '%', 'ключ']) {
      assert.equal(await apiKeyById(database, id), undefined, id)
    }
  })

  it('a revocation is stored, and the first one counts', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    assert.equal(await revokeApiKey(database, key.id, NOW_MS + 5), true)
    assert.equal(await revokeApiKey(database, key.id, NOW_MS + 9), true)
    assert.equal(await revokedOf(key), NOW_MS + 5)
    assert.equal(await revokeApiKey(database, randomUUID(), NOW_MS), false)
  })

  it('a key above the limit revokes the oldest of its owner, and none of another owner', async () => {
    const address = freshAddress()
    const stranger = keyOf({ createdAtMs: 1 })
    await registerApiKey(database, stranger, 20)
    const keys = Array.from({ length: 22 }, (_, at) => keyOf({ address, createdAtMs: NOW_MS + at }))
    for (const [at, key] of keys.entries()) {
      const revoked = await registerApiKey(database, key, 20)
      assert.deepEqual(revoked, at < 20 ? [] : [keys[at - 20]?.id])
    }
    assert.deepEqual(
      await Promise.all(keys.map(async (key) => (await revokedOf(key)) === null)),
      keys.map((_, at) => at >= 2),
    )
    assert.equal(await revokedOf(stranger), null)
  })

  it('revoked and expired keys do not count towards the limit, so they cause no valid key to be revoked', async () => {
    const address = freshAddress()
    const oldest = keyOf({ address, createdAtMs: NOW_MS - 1_000 })
    await registerApiKey(database, oldest, 3)
    for (let round = 0; round < 5; round++) {
      const dead = keyOf({ address, createdAtMs: NOW_MS, expiresAtSec: NOW_SEC + 10 })
      await registerApiKey(database, dead, 10)
      if (round % 2 === 0) await revokeApiKey(database, dead.id, NOW_MS)
    }
    const later = { address, createdAtMs: NOW_MS + 10_000 }
    assert.deepEqual(await registerApiKey(database, keyOf(later), 3), [])
    assert.deepEqual(await registerApiKey(database, keyOf(later), 3), [])
    assert.deepEqual(await registerApiKey(database, keyOf(later), 3), [oldest.id])
  })

  it('a new key is kept even if it is dated before the older keys', async () => {
    const address = freshAddress()
    for (let at = 0; at < 2; at++) await registerApiKey(database, keyOf({ address }), 2)
    const behind = keyOf({ address, createdAtMs: NOW_MS - 60_000 })
    assert.equal((await registerApiKey(database, behind, 2)).length, 1)
    assert.equal(await revokedOf(behind), null)
  })

  it('a second key with the same id is refused and changes nothing', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    await assert.rejects(registerApiKey(database, { ...key, name: 'other' }, 20), {
      code: 'STORE_CONSTRAINT',
    })
    assert.equal((await apiKeyById(database, key.id))?.name, '')
  })
})
