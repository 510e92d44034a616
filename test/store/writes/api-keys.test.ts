import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, it } from 'node:test'
import type { ApiKey } from '#domain/api-key.ts'
import type { Address } from '#domain/ids.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { apiKeyById, registerApiKey, revokeApiKey } from '#store/writes/api-keys.ts'
import { clearFiredDeadman, deadmanDue, setDeadman } from '#store/writes/deadman.ts'
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

await onBothDatabases('API keys are stored', ({ fresh }) => {
  let database: Database
  before(async () => {
    database = await openDatabase(await fresh())
    await migrate(database)
  })
  after(() => closeDatabase(database))

  const revokedOf = async (key: ApiKey) => (await apiKeyById(database, key.id))?.revokedAtMs

  it('a registered API key is read back unchanged', async () => {
    for (const key of [
      keyOf(),
      keyOf({ name: 'бот 🤖 of "O\'Brien" \\', expiresAtSec: Number.MAX_SAFE_INTEGER }),
      keyOf({ name: '🤖'.repeat(50), expiresAtSec: 1 }),
    ]) {
      assert.deepEqual(await registerApiKey(database, key, 20), [])
      assert.deepEqual(await apiKeyById(database, key.id), key)
    }
  })

  it('an API key is found only by its exact id', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    for (const id of [key.id.toUpperCase(), key.id.slice(0, -1), `${key.id}x`, '', '%', 'ключ']) {
      assert.equal(await apiKeyById(database, id), undefined, id)
    }
  })

  it('a revoked API key loses its dead-man switch, and other keys keep theirs', async () => {
    const address = freshAddress()
    const [oldest, revoked, newest] = [1, 2, 3].map((age) =>
      keyOf({ address, createdAtMs: NOW_MS + age }),
    ) as [ApiKey, ApiKey, ApiKey]
    for (const key of [oldest, revoked]) await registerApiKey(database, key, 20)
    const set = ({ id }: ApiKey) => setDeadman(database, { keyId: id, address, dueAtMs: NOW_MS })
    for (const key of [oldest, revoked]) assert.equal(await set(key), true)
    assert.equal(await set(newest), false, 'an unknown key')
    const switches = async () => {
      const due = await deadmanDue(database, { beforeMs: NOW_MS + 1, limit: 10 })
      return due.map(({ keyId }) => keyId).sort()
    }
    await revokeApiKey(database, revoked.id, NOW_MS)
    assert.deepEqual(await switches(), [oldest.id])
    // Simulates a request that was accepted just before the revocation, but is written after it.
    assert.equal(await set(revoked), false, 'a revoked key')
    assert.deepEqual(await switches(), [oldest.id])
    // With a limit of one key, the new key revokes the oldest.
    await registerApiKey(database, newest, 1)
    assert.deepEqual(await switches(), [])
    assert.equal(await set(newest), true)
    await clearFiredDeadman(database, { fired: [{ keyId: newest.id, dueAtMs: NOW_MS - 1 }] })
    assert.deepEqual(await switches(), [newest.id], 'renewed meanwhile')
    await clearFiredDeadman(database, { fired: [{ keyId: newest.id, dueAtMs: NOW_MS }] })
    assert.deepEqual(await switches(), [])
  })

  it('the first revocation of an API key is stored, and later ones change nothing', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    assert.equal(await revokeApiKey(database, key.id, NOW_MS + 5), true)
    assert.equal(await revokeApiKey(database, key.id, NOW_MS + 9), true)
    assert.equal(await revokedOf(key), NOW_MS + 5)
    assert.equal(await revokeApiKey(database, randomUUID(), NOW_MS), false)
  })

  it('registering an API key above the limit revokes the owner’s oldest key, and no key of another owner', async () => {
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

  it('revoked and expired API keys do not count towards the limit of keys per owner', async () => {
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

  it('a new API key is stored and stays valid even if it is dated before the owner’s older keys', async () => {
    const address = freshAddress()
    for (let at = 0; at < 2; at++) await registerApiKey(database, keyOf({ address }), 2)
    const behind = keyOf({ address, createdAtMs: NOW_MS - 60_000 })
    assert.equal((await registerApiKey(database, behind, 2)).length, 1)
    assert.equal(await revokedOf(behind), null)
  })

  it('a second API key with the same id is refused and changes nothing', async () => {
    const key = keyOf()
    await registerApiKey(database, key, 20)
    await assert.rejects(registerApiKey(database, { ...key, name: 'other' }, 20), {
      code: 'STORE_CONSTRAINT',
    })
    assert.equal((await apiKeyById(database, key.id))?.name, '')
  })
})
