import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, createServer, type Socket } from 'node:net'
import { it, type TestContext } from 'node:test'
import { loadSettings, SettingsError } from '#config/settings.ts'
import { TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import { openTokenClaims } from '#services/front/tokens.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimNonces, claimsSince, forgetNonces } from '#store/writes/token-nonces.ts'
import { makeKey, mint } from '../../http/tokens.ts'
import { onServerDatabase } from '../../support/databases.ts'
import { randomFrom } from '../../support/random.ts'

const key = makeKey()
const nowSec = () => Math.floor(Date.now() / 1_000)
const tokenAt = (ts: number) => `Bearer ${mint(key, ts * 1_000)}`

/** Starts a front as a separate process would: with nothing in its memory. */
function startFront(t: TestContext, databaseUrl: string, clock: Clock = systemClock) {
  const settings = loadSettings({
    SIBYL_DATABASE_URL: databaseUrl,
    SIBYL_NONCES: 'database',
    SIBYL_LOG_LEVEL: 'silent',
  })
  const kit = makeThreadContext({ name: 'front-0', settings, isTerminal: false } as never)
  const secret = randomBytes(8).toString('hex')
  const tokens = openTokenClaims(settings, clock, kit, secret)
  assert(tokens !== undefined)
  t.after(async () => {
    kit.quiet()
    await tokens.close()
  })
  const authenticator = makeAuthenticator({
    findKey: async () => key.key,
    nonces: makeNonceLedger(makeSharedTable(10_000, secret)),
    singleUse: true,
    claim: tokens.claim,
    clock,
    startedAtMs: Date.now(),
  })
  return async (token: string): Promise<string> => {
    const answer = await authenticator.identify(token)
    return isRejection(answer) ? answer.rejected : 'accepted'
  }
}

it('an exchange of a single process remembers used tokens in memory, without the database', () => {
  const settings = loadSettings({ SIBYL_LOG_LEVEL: 'silent' })
  const kit = makeThreadContext({ name: 'front-0', settings, isTerminal: false } as never)
  assert.equal(openTokenClaims(settings, systemClock, kit, ''), undefined)
  assert.throws(() => loadSettings({ SIBYL_NONCES: 'database' }), SettingsError)
})

it('a cluster refuses request tokens with a retryable error while the database is unavailable', async (t) => {
  const identify = startFront(t, 'mysql://root@127.0.0.1:1/none')
  assert.equal(await identify(tokenAt(nowSec())), 'OVERLOADED')
})

await onServerDatabase(
  'the fronts of a cluster record used request tokens in the database',
  (databases) => {
    async function migrated(t: TestContext) {
      const url = await databases.fresh()
      const database = await openDatabase(url)
      t.after(() => closeDatabase(database))
      await migrate(database)
      return { url, database }
    }

    it('all fronts together accept each request token only once, even after one of them dies', async (t) => {
      const { url, database } = await migrated(t)
      // Pretends that used tokens have been recorded for 100 seconds, as in a cluster that already runs.
      await claimsSince(database, nowSec() - 100)
      const random = randomFrom(Number(process.env.TEST_SEED ?? 11))
      const fronts = [startFront(t, url), startFront(t, url)]
      const tokens = Array.from({ length: 300 }, () => tokenAt(nowSec() - random.int(0, 20)))
      const spare = tokenAt(nowSec() - 20)
      const answers = await Promise.all(
        tokens.map(async (token) => {
          const asked = [...fronts, random.pick(fronts)].toSorted(() => random.next() - 0.5)
          return (await Promise.all(asked.map((identify) => identify(token)))).toSorted()
        }),
      )
      const used = 'UNAUTHORIZED_TOKEN_USED'
      for (const answer of answers) assert.deepEqual(answer, [used, used, 'accepted'])
      const next = startFront(t, url)
      for (const token of tokens.slice(0, 20)) assert.equal(await next(token), used)
      assert.equal(await next(spare), 'accepted', 'one from before its start that nobody has used')
    })

    it('a cluster refuses request tokens that were issued before the cluster first recorded used tokens', async (t) => {
      const { url } = await migrated(t)
      const identify = startFront(t, url)
      const early = tokenAt(nowSec() - 10)
      assert.equal(await identify(tokenAt(nowSec() + 5)), 'accepted')
      assert.equal(await identify(early), 'UNAUTHORIZED_TOKEN_EXPIRED')
    })

    it('if opening the database takes long, the cluster’s first request token is still accepted', async (t) => {
      const { url } = await migrated(t)
      let aheadMs = 0
      const clock: Clock = { ...systemClock, nowMs: () => Date.now() + aheadMs }
      const identify = startFront(t, url, clock)
      const token = tokenAt(nowSec())
      aheadMs = 3_000
      assert.equal(await identify(token), 'accepted')
      assert.equal(await identify(token), 'UNAUTHORIZED_TOKEN_USED')
    })

    it('if the database’s confirmation of a recorded request token is lost, the token is accepted at one retry', async (t) => {
      const { url, database } = await migrated(t)
      await claimsSince(database, nowSec() - 100)
      const proxy = await losingProxy(url)
      t.after(proxy.close)
      const identify = startFront(t, proxy.url)
      const elsewhere = startFront(t, url)
      assert.equal(await identify(tokenAt(nowSec())), 'accepted')
      const token = tokenAt(nowSec())
      proxy.loseNextCommit()
      assert.equal(await identify(token), 'OVERLOADED')
      assert.equal(proxy.lost(), 1)
      assert.equal(await identify(token), 'accepted')
      assert.equal(await identify(token), 'UNAUTHORIZED_TOKEN_USED')
      assert.equal(await elsewhere(token), 'UNAUTHORIZED_TOKEN_USED')
    })

    it('a used token can be recorded again only by the same request, and expired records are deleted', async (t) => {
      const { database } = await migrated(t)
      const claim = (nonce: string, untilSec: number) => ({
        ...{ keyId: key.key.id, nonce, claim: randomBytes(8) },
        ...{ issuedSec: untilSec - TOKEN_LIFE_SEC, untilSec },
      })
      const [a, b, c] = ['aa', 'bb', 'cc'].map((pair, at) => claim(pair.repeat(16), 1_000 + at))
      assert(a !== undefined && b !== undefined && c !== undefined)
      assert.deepEqual(await claimNonces(database, [b, a]), [true, true])
      assert.deepEqual(await claimNonces(database, [a, c, b]), [true, true, true])
      const rival = { ...a, claim: randomBytes(8) }
      assert.deepEqual(await claimNonces(database, [rival, b]), [false, true])
      assert.equal(await claimsSince(database, 900), 900)
      assert.equal(await forgetNonces(database, 1_002), 2)
      assert.deepEqual(await claimNonces(database, [rival, { ...c, claim: randomBytes(8) }]), [
        true,
        false,
      ])
      assert.equal(await claimsSince(database, 2_000), 900, 'since when does not expire')
    })

    it('a front with a wrong clock deletes no record of a token that is still valid', async (t) => {
      const { url, database } = await migrated(t)
      await claimsSince(database, nowSec() - 100)
      const token = tokenAt(nowSec())
      assert.equal(await startFront(t, url)(token), 'accepted')
      const aheadSec = nowSec() + 3_600
      assert.equal(await forgetNonces(database, aheadSec), 0)
      assert.equal(await startFront(t, url)(token), 'UNAUTHORIZED_TOKEN_USED')
    })

    it('all expired records of used tokens are deleted, however many there are', async (t) => {
      const { database } = await migrated(t)
      const used = Array.from({ length: 6_000 }, (_, at) => ({
        ...{ keyId: 'a key', nonce: at.toString(16).padStart(32, '0'), claim: randomBytes(8) },
        ...{ issuedSec: 1_000, untilSec: 1_001 },
      }))
      for (let from = 0; from < used.length; from += 1_000) {
        await claimNonces(database, used.slice(from, from + 1_000))
      }
      assert.equal(await forgetNonces(database, 1_002), used.length)
      assert.equal(await forgetNonces(database, 1_002), 0)
    })
  },
)

/** Starts a proxy that can lose the answer to a commit, together with its connection. */
async function losingProxy(url: string) {
  const to = new URL(url)
  const at = new URL(url)
  let loses = false
  let lost = 0
  const open = new Set<Socket>()
  const server = createServer((client) => {
    const behind = connect(Number(to.port || 3306), to.hostname)
    let isLost = false
    const end = () => {
      client.destroy()
      behind.destroy()
    }
    for (const socket of [client, behind]) {
      open.add(socket)
      socket.on('error', end)
      socket.on('close', end)
    }
    client.on('data', (bytes) => {
      if (loses && /commit/i.test(bytes.toString('latin1'))) {
        loses = false
        isLost = true
        lost++
      }
      behind.write(bytes)
    })
    behind.on('data', (bytes) => (isLost ? end() : client.write(bytes)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  at.hostname = '127.0.0.1'
  at.port = String((server.address() as { port: number }).port)
  return {
    url: at.href,
    loseNextCommit: () => {
      loses = true
    },
    lost: () => lost,
    close: () => {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}
