import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import {
  forgetApiKey,
  openApiKey,
  registerApiKey,
  revokeApiKey,
  revokeApiKeyByWallet,
} from '#client/api-keys.ts'
import { createClient } from '#client/client.ts'
import { type ApiKeyPair, mintToken, withApiKey } from '#client/tokens.ts'
import { registerMessage, revokeMessage } from '#domain/api-key.ts'
import { onServer, TEST_MYSQL_URL } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { type Exchange, openExchange, startExchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { signedOrder, traderNumbered } from '../support/signed-orders.ts'
import { endSession, holdAnothersOrder, openSession } from './cancel-on-disconnect.ts'
import { reportStages } from './server-timing.ts'

const THREADS = 2
const BEARER = {
  SIBYL_AUTH_BEARER: 'true',
  SIBYL_FRONT_THREADS: String(THREADS),
  SIBYL_SNAPSHOT_EVERY: '100',
}
const LIMITS = {
  SIBYL_LIMITS: 'true',
  SIBYL_LIMIT_IP_PER_SECOND: '1',
  SIBYL_LIMIT_IP_BURST: '1000',
  SIBYL_COST_CONNECTION: '0',
}
const [MARKET, MARKET_TOO] = demoMarketIds()
assert.ok(MARKET !== undefined && MARKET_TOO !== undefined)
const ann = traderNumbered(11)
const bob = traderNumbered(12)
const annWallet = privateKeyToAccount(ann.key)
const bobWallet = privateKeyToAccount(bob.key)

type Answer = {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly front: string
}

/** Sends one request on the agent's connection; the prefix of the answer's request id shows which thread answered. */
function send(
  agent: Agent,
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    // Node does not send the length of a DELETE's body unless this header is set.
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const options = { method, agent, headers: { ...headers, ...length } }
    const sent = request(url, options, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => {
        text += chunk
      })
      response.on('end', () => {
        const front = String(response.headers['x-request-id']).split('-')[0] ?? ''
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text), front })
      })
    })
    sent.once('error', reject)
    sent.end(body)
  })
}

/**
 * Returns one connection to each front thread. The kernel chooses the thread, so connections are opened until all
 * threads have one.
 */
async function agentsOfAllFronts(t: TestContext, url: string): Promise<Agent[]> {
  const byFront = new Map<string, Agent>()
  await eventually(async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.after(() => agent.destroy())
    const { front } = await send(agent, 'GET', `${url}/healthz`)
    if (!byFront.has(front)) byFront.set(front, agent)
    assert.equal(byFront.size, THREADS, 'connections to every front thread')
  })
  return [...byFront.values()]
}

const JSON_BODY = { 'content-type': 'application/json' }

async function post(
  url: string,
  body: unknown,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: JSON_BODY,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const authorized = async (key: ApiKeyPair) => ({
  authorization: `Bearer ${await mintToken(key, Date.now())}`,
})

test('traders can register, use and revoke API keys on an exchange with two front threads', async (t) => {
  const exchange = await startExchange(t, { environment: BEARER })
  const { url } = exchange
  const keys = `${url}/api/v1/api-keys`
  const register = async (address: string, wallet = annWallet, fields: object = {}) => ({
    address,
    signature: await wallet.signMessage({ message: registerMessage('Sibyl', address) }),
    ...fields,
  })

  await t.test('a trader registers an API key by a signature of the wallet', async () => {
    const { status, body } = await post(
      keys,
      await register(ann.address, annWallet, { name: 'bot' }),
    )
    assert.equal(status, 200)
    const { success, api_key_id, api_private_key, message } = body
    assert.equal(success, true)
    assert.match(String(api_key_id), /^[0-9a-f-]{36}$/)
    assert.match(String(api_private_key), /^[0-9a-f]{64}$/)
    assert.match(String(message), /private key/)
  })

  await t.test('a wallet address is signed exactly as it is written in the request', async () => {
    const lower = ann.address.toLowerCase()
    assert.equal((await post(keys, await register(lower))).status, 200)
    const crossed = { ...(await register(ann.address)), address: lower }
    assert.deepEqual(await post(keys, crossed), {
      status: 401,
      body: {
        error: 'invalid signature',
        code: 'UNAUTHORIZED_INVALID_SIGNATURE',
        field: 'signature',
      },
    })
  })

  const good = await register(ann.address)
  const wrong: [string, unknown, number, string, string?][] = [
    [
      'the signature of another wallet',
      await register(ann.address, bobWallet),
      401,
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'signature',
    ],
    [
      'an address other than that of the signer',
      { ...good, address: bob.address },
      401,
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'signature',
    ],
    [
      'a signature of another message',
      {
        ...good,
        signature: await annWallet.signMessage({ message: registerMessage('Other', ann.address) }),
      },
      401,
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'signature',
    ],
    [
      'a malformed signature',
      { ...good, signature: '0x1234' },
      401,
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'signature',
    ],
    [
      'a signature of zeros',
      { ...good, signature: `0x${'00'.repeat(65)}` },
      401,
      'UNAUTHORIZED_INVALID_SIGNATURE',
      'signature',
    ],
    ['no signature', { address: ann.address }, 400, 'MISSING_FIELD', 'signature'],
    ['no address', { signature: good.signature }, 400, 'MISSING_FIELD', 'address'],
    ['an incomplete address', { ...good, address: '0x1234' }, 400, 'INVALID_FIELD', 'address'],
    ['an address that is a number', { ...good, address: 7 }, 400, 'INVALID_FIELD', 'address'],
    ['a name with a line break', { ...good, name: 'a\r\nb' }, 400, 'INVALID_FIELD', 'name'],
    ['a name with a NUL character', { ...good, name: 'a\0b' }, 400, 'INVALID_FIELD', 'name'],
    ['a name that is too long', { ...good, name: 'x'.repeat(101) }, 400, 'INVALID_FIELD', 'name'],
    ['an expiration in the past', { ...good, expiresAt: 1_000 }, 400, 'INVALID_FIELD', 'expiresAt'],
    [
      'an expiration that is not a time',
      { ...good, expiresAt: 'soon' },
      400,
      'INVALID_FIELD',
      'expiresAt',
    ],
    ['an unknown field', { ...good, admin: true }, 400, 'INVALID_FIELD', 'admin'],
    ['a body that is not JSON', '{', 400, 'INVALID_JSON'],
  ]
  for (const [what, body, status, code, field] of wrong) {
    await t.test(`a registration with ${what} registers no API key`, async () => {
      const answer = await post(keys, body)
      assert.deepEqual([answer.status, answer.body.code, answer.body.field], [status, code, field])
    })
  }

  await t.test(
    'reads and order validations need no request token, and writes need one',
    async () => {
      const order = await signedOrder(MARKET)
      assert.equal((await fetch(`${url}/api/v1/markets`)).status, 200)
      assert.equal((await post(`${url}/api/v1/orders/validate`, order)).status, 200)
      for (const path of ['orders', 'orders/batch']) {
        assert.deepEqual(await post(`${url}/api/v1/${path}`, order), {
          status: 401,
          body: { error: 'missing authorization header', code: 'UNAUTHORIZED_MISSING_HEADER' },
        })
      }
    },
  )

  await t.test('a request token is accepted once, whichever thread gets it', async () => {
    const agents = await agentsOfAllFronts(t, url)
    const key = await registerApiKey({ url }, annWallet)
    for (const first of agents) {
      const headers = await authorized(key)
      const target: string = `${url}/api/v1/orders?market=${MARKET}`
      assert.equal((await send(first, 'DELETE', target, headers)).status, 200)
      for (const agent of agents) {
        const { status, body } = await send(agent, 'DELETE', target, headers)
        const used = {
          error: 'the token was already used: make a new token for each request',
          code: 'UNAUTHORIZED_TOKEN_USED',
        }
        assert.deepEqual([status, body], [401, used])
      }
    }
  })

  await t.test('a revoked key is refused by every thread at once', async () => {
    const agents = await agentsOfAllFronts(t, url)
    const key = await registerApiKey({ url }, annWallet)
    const target: string = `${url}/api/v1/orders?market=${MARKET}`
    for (const agent of agents) {
      assert.equal((await send(agent, 'DELETE', target, await authorized(key))).status, 200)
    }
    await revokeApiKey({ url }, key)
    const answeredAtMs = Date.now()
    for (const agent of agents) {
      for (;;) {
        const headers = await authorized(key)
        const sentAtMs = Date.now()
        const { status, body } = await send(agent, 'DELETE', target, headers)
        if (status === 200) {
          assert.ok(sentAtMs < answeredAtMs + 1_000, 'a front knows it within a second')
          continue
        }
        const inactive = { error: 'API key is inactive', code: 'UNAUTHORIZED_KEY_INACTIVE' }
        assert.deepEqual([status, body], [401, inactive])
        break
      }
    }
  })

  await t.test(
    'a wallet can revoke its own API keys without their private keys, and cannot revoke keys of another wallet',
    async () => {
      const key = await registerApiKey({ url }, annWallet)
      const path = `${keys}/${key.id}`
      const agent = new Agent()
      t.after(() => agent.destroy())
      const signed = async (wallet: typeof annWallet, id = key.id) =>
        JSON.stringify({
          address: wallet.address,
          signature: await wallet.signMessage({
            message: revokeMessage('Sibyl', id, wallet.address),
          }),
        })
      const otherKey = await registerApiKey({ url }, annWallet)
      for (const [what, body] of [
        ['another wallet', await signed(bobWallet)],
        ['a signature for another key', await signed(annWallet, otherKey.id)],
      ] as const) {
        const { status, body: answer } = await send(agent, 'DELETE', path, JSON_BODY, body)
        assert.deepEqual([status, answer.code], [401, 'UNAUTHORIZED_INVALID_SIGNATURE'], what)
      }
      const foreign = await send(agent, 'DELETE', path, await authorized(otherKey))
      assert.deepEqual([foreign.status, foreign.body.code], [403, 'NOT_KEY_OWNER'])
      const nobody = await send(agent, 'DELETE', path)
      assert.deepEqual([nobody.status, nobody.body.code], [401, 'UNAUTHORIZED_MISSING_HEADER'])
      const unknown = await send(
        agent,
        'DELETE',
        `${keys}/%D0%BA`,
        JSON_BODY,
        await signed(annWallet),
      )
      assert.equal(unknown.status, 404)
      await revokeApiKeyByWallet({ url }, key.id, annWallet)
      await revokeApiKeyByWallet({ url }, key.id, annWallet)
      const after = await send(agent, 'DELETE', `${url}/api/v1/orders`, await authorized(key))
      assert.equal(after.body.code, 'UNAUTHORIZED_KEY_INACTIVE')
    },
  )

  await t.test('an API key is refused once it has expired', async () => {
    const keyFor = async (seconds: number) => {
      const expiresAt = Math.floor(Date.now() / 1_000) + seconds
      const key = await registerApiKey({ url }, bobWallet, { expiresAt })
      const made = createClient(withApiKey({ url }, key))
      await made.orders.cancelAll()
      return made
    }
    // On a busy machine, a key that is valid for 2 s may expire before its first use. In that case the test
    // registers a key that is valid for 30 s.
    const client = await keyFor(2).catch(() => keyFor(30))
    await eventually(() =>
      assert.rejects(client.orders.cancelAll(), {
        status: 401,
        code: 'UNAUTHORIZED_KEY_EXPIRED',
        message: 'API key has expired',
      }),
    )
  })

  await t.test('the twenty-first API key of a wallet revokes the oldest one', async () => {
    const wallet = privateKeyToAccount(traderNumbered(13).key)
    const made: ApiKeyPair[] = []
    for (let at = 0; at < 21; at++) made.push(await registerApiKey({ url }, wallet))
    const outcomes = await Promise.all(
      made.map((key) =>
        createClient(withApiKey({ url }, key))
          .orders.cancelAll()
          .then(
            () => 'active',
            (error: { code: string }) => error.code,
          ),
      ),
    )
    assert.deepEqual(outcomes, ['UNAUTHORIZED_KEY_INACTIVE', ...Array<string>(20).fill('active')])
  })

  await t.test(
    'any API key can submit orders of any trader, but cancel only orders of its own wallet',
    async () => {
      const annClient = createClient(withApiKey({ url }, await registerApiKey({ url }, annWallet)))
      const bobClient = createClient(withApiKey({ url }, await registerApiKey({ url }, bobWallet)))
      const byAnn = await signedOrder(MARKET, { price: 100_000 }, { trader: ann })
      const byAnnToo = await signedOrder(MARKET_TOO, { price: 100_001 }, { trader: ann })
      const byBob = await signedOrder(MARKET, { price: 100_002 }, { trader: bob })
      const { orderHash } = await bobClient.orders.submit(byAnn)
      const [too, bobs] = await annClient.orders.submitBatch([byAnnToo, byBob])
      assert.ok(too?.ok && bobs?.ok)
      const refused = {
        status: 403,
        code: 'NOT_ORDER_OWNER',
        message:
          'the order belongs to another wallet address: use a token of its trader or of a delegate',
      }
      await assert.rejects(bobClient.orders.cancel({ orderHash, marketId: MARKET }), refused)
      await assert.rejects(
        annClient.orders.cancel({ orderHash: bobs.placed.orderHash, marketId: MARKET }),
        refused,
      )
      const agent = new Agent()
      t.after(() => agent.destroy())
      const key = await registerApiKey({ url }, bobWallet)
      const foreign = `${url}/api/v1/orders?trader=${ann.address}`
      const answer = await send(agent, 'DELETE', foreign, await authorized(key))
      assert.deepEqual([answer.status, answer.body.code], [403, 'NOT_ORDER_OWNER'])

      assert.deepEqual((await bobClient.orders.cancelAll()).orderHashes, [bobs.placed.orderHash])
      assert.equal((await annClient.orders.list({ trader: ann.address })).length, 2)
      const one = await annClient.orders.cancelAll({ market: MARKET_TOO })
      assert.deepEqual(one.orderHashes, [too.placed.orderHash])
      assert.equal(
        (await annClient.orders.cancel({ orderHash, marketId: MARKET })).status,
        'cancelled',
      )
      assert.equal((await annClient.orders.cancelAll()).count, 0)
    },
  )

  await t.test(
    'the SDK stores an API key, and corrects the local clock by the time of the exchange',
    async () => {
      const kept = new Map<string, string>()
      const storage = {
        getItem: (name: string) => kept.get(name) ?? null,
        setItem: (name: string, value: string) => kept.set(name, value),
        removeItem: (name: string) => kept.delete(name),
      }
      const key = await openApiKey({ url }, annWallet, storage, { name: 'kept' })
      assert.deepEqual(await openApiKey({ url: `${url}/` }, ann.key, storage), key)
      await forgetApiKey({ url }, ann.address, storage)
      assert.equal(kept.size, 0)

      const trueNow = Date.now
      for (const offMs of [-3_600_000, 3_600_000]) {
        let sent = 0
        const client = createClient(
          withApiKey(
            {
              url,
              fetch: (input, init) => {
                sent++
                return fetch(input, init)
              },
            },
            key,
          ),
        )
        t.mock.method(Date, 'now', () => trueNow() + offMs)
        try {
          await client.orders.cancelAll()
          assert.equal(sent, 2, 'one attempt to learn the time')
          await client.orders.cancelAll()
          assert.equal(sent, 3)
        } finally {
          t.mock.restoreAll()
        }
      }
    },
  )

  await t.test(
    'a write returns its processing times on request, and the metrics have all of them',
    () => reportStages(exchange),
  )

  await t.test(
    'orders placed in a session with cancel on disconnect are cancelled when the session ends',
    (nested) => endSession(nested, exchange),
  )

  await t.test('the end of a session does not cancel orders of another trader', (nested) =>
    holdAnothersOrder(nested, exchange),
  )

  const stored = await registerApiKey({ url }, annWallet)
  const session = await openSession(t, exchange)
  await exchange.kill()
  await t.test(
    'the files of an exchange contain the public key of an API key, never the private key',
    () => findPublicHalfOnly(exchange.dataDir, stored),
  )
  await exchange.start()
  await t.test(
    'when the exchange is killed, orders of sessions with cancel on disconnect are cancelled, and other orders stay open',
    () => session.afterKill(),
  )

  await t.test(
    'after a restart, earlier request tokens are refused as expired, and API keys are still accepted',
    async () => {
      const { url } = exchange
      const key = await registerApiKey({ url }, annWallet)
      const revoked = await registerApiKey({ url }, annWallet)
      await revokeApiKey({ url }, revoked)
      const before = await authorized(key)
      await exchange.kill()
      await exchange.start({ ...BEARER, ...LIMITS })
      const agent = new Agent()
      t.after(() => agent.destroy())
      const target = `${exchange.url}/api/v1/orders`
      const late = await send(agent, 'DELETE', target, before)
      assert.deepEqual(late.body, { error: 'token expired', code: 'UNAUTHORIZED_TOKEN_EXPIRED' })
      assert.equal((await send(agent, 'DELETE', target, await authorized(key))).status, 200)
      const dead = await send(agent, 'DELETE', target, await authorized(revoked))
      assert.equal(dead.body.code, 'UNAUTHORIZED_KEY_INACTIVE')
    },
  )

  await t.test('a second kill of the exchange does not cancel any further orders', () =>
    session.afterSecondKill(),
  )

  // The exchange now has the limits with which it was restarted.
  await t.test('the API publishes the rate limits that the exchange applies', async () => {
    const { url } = exchange
    const config = (await (await fetch(`${url}/api/v1/config`)).json()) as {
      limits: Record<string, number>
      auth: Record<string, unknown>
    }
    assert.equal(config.limits.ipUnitsBurst, 1_000)
    assert.equal(config.limits.writeUnits, 5)
    assert.equal(config.limits.apiKeysPerAddressMax, 20)
    assert.equal(config.limits.streamSubscriptionsMax, 200)
    assert.equal(config.limits.streamConnectionsPerIpMax, 500)
    assert.equal(config.limits.streamMalformedMax, 100)
    assert.deepEqual(config.auth, {
      bearer: true,
      tokenSeconds: 300,
      singleUse: true,
      registerMessage: 'Register API key for Sibyl: <address>',
      revokeMessage: 'Revoke API key <id> for Sibyl: <address>',
    })
    const agents = await agentsOfAllFronts(t, url)
    const order = JSON.stringify(await signedOrder(MARKET))
    const path = `${url}/api/v1/orders/validate`
    const statuses = new Map<number, number>()
    for (let round = 0; round < 240; round++) {
      const agent = agents[round % agents.length]!
      const { status } = await send(agent, 'POST', path, JSON_BODY, order)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    // Validating an order costs 5 units. So the limit of 1,000 units pays for 200 requests to both threads in total.
    // The refill during the test pays for a few more.
    assert.ok(
      (statuses.get(200) ?? 0) >= 190 && (statuses.get(200) ?? 0) < 235,
      [...statuses].join(),
    )
    assert.ok((statuses.get(429) ?? 0) > 0)
    assert.equal((await fetch(`${url}/healthz`)).status, 200)
  })
})

/** First bytes of the DER encoding of an Ed25519 private key. */
const PKCS8 = '302e020100300506032b657004220420'

/** Asserts that the data folder has the public half of a key pair in its files, but not the private half. */
function findPublicHalfOnly(dataDir: string, { privateKey }: ApiKeyPair): void {
  const key = Buffer.from(PKCS8 + privateKey, 'hex')
  const pair = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const publicKey = Buffer.from(
    createPublicKey(pair).export({ format: 'jwk' }).x ?? '',
    'base64url',
  )
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)))
  const has = (half: Buffer): boolean => {
    const forms = [
      half,
      ...(['hex', 'base64', 'base64url'] as const).map((as) => half.toString(as)),
    ]
    return files.some((bytes) => forms.some((form) => bytes.includes(form)))
  }
  assert.ok(has(publicKey), 'the public half is found')
  assert.ok(!has(Buffer.from(privateKey, 'hex')), 'the private half is in a file')
}

async function tradeAndMisbehave(url: string): Promise<string[]> {
  const secrets: string[] = []
  const keep = (text: string): string => {
    secrets.push(text)
    return text
  }
  const headers = async (key: ApiKeyPair) => {
    const token = keep(await mintToken(key, Date.now()))
    return { authorization: `Bearer ${token}` }
  }
  const [annKey, bobKey] = await Promise.all([
    registerApiKey({ url }, annWallet, { name: 'one' }),
    registerApiKey({ url }, bobWallet),
  ])
  for (const { privateKey } of [annKey, bobKey]) keep(privateKey)
  const agent = new Agent({ keepAlive: true })
  const write = async (key: ApiKeyPair, method: string, path: string, body?: string) =>
    send(agent, method, `${url}${path}`, { ...JSON_BODY, ...(await headers(key)) }, body)
  const sale = await signedOrder(MARKET!, { side: 1, price: 400_000 }, { trader: ann })
  const purchase = await signedOrder(MARKET!, { price: 400_000, size: 2_000_000 }, { trader: bob })
  assert.equal((await write(annKey, 'POST', '/api/v1/orders', JSON.stringify(sale))).status, 200)
  const bought = await write(bobKey, 'POST', '/api/v1/orders', JSON.stringify(purchase))
  assert.equal(bought.body.matches, 1)
  const cancel = `/api/v1/orders/${bought.body.orderHash}?marketId=${MARKET}`
  assert.equal((await write(annKey, 'DELETE', cancel)).status, 403)
  assert.equal((await write(bobKey, 'DELETE', cancel)).status, 200)
  for (const body of ['{', '[]', '{"order":{}}', 'x'.repeat(70_000), '{"api_private_key":"y"}']) {
    await write(annKey, 'POST', '/api/v1/orders', body)
    await write(annKey, 'POST', '/api/v1/api-keys', body)
  }
  const token = await headers(annKey)
  for (const authorization of [token.authorization.slice(0, -2), `${token.authorization}=`, 'x']) {
    await send(agent, 'DELETE', `${url}/api/v1/orders`, { authorization })
  }
  await send(agent, 'DELETE', `${url}/api/v1/orders`, { authorization: annKey.privateKey })
  await revokeApiKey({ url }, annKey)
  await revokeApiKeyByWallet({ url }, bobKey.id, bobWallet)
  await write(annKey, 'DELETE', '/api/v1/orders')
  agent.destroy()
  return secrets
}

test('the logs of a full run contain no secret, even at the lowest level', async (t) => {
  const password = randomBytes(12).toString('hex')
  const database = `sibyl_test_${randomBytes(6).toString('hex')}`
  const served = await onServer(`create database ${database}`).then(
    () => true,
    () => false,
  )
  if (served) {
    await onServer(`create user '${database}'@'%' identified by '${password}'`)
    await onServer(`grant all on ${database}.* to '${database}'@'%'`)
  } else t.diagnostic('no MySQL or MariaDB server: the password of a database is not looked for')
  t.after(async () => {
    if (!served) return
    await onServer(`drop database if exists ${database}`)
    await onServer(`drop user if exists '${database}'@'%'`)
  })
  const address = new URL(TEST_MYSQL_URL)
  address.username = database
  address.password = password
  address.pathname = database
  const environment = {
    ...BEARER,
    SIBYL_LOG_LEVEL: 'trace',
    ...(served ? { SIBYL_DATABASE_URL: address.href } : {}),
  }
  const exchange: Exchange = await startExchange(t, { environment, outputCharsMax: 50_000_000 })
  const secrets = await tradeAndMisbehave(exchange.url)
  if (served) {
    // The database server rejects the exchange's login while the exchange runs, so that errors are logged, too.
    await onServer(`alter user '${database}'@'%' identified by 'another'`)
    const connections = await onServer<{ id: number }>(
      `select id from information_schema.processlist where user = '${database}'`,
    )
    for (const { id } of connections) await onServer(`kill ${id}`).catch(() => undefined)
    const { url } = exchange
    await assert.rejects(registerApiKey({ url }, annWallet), { name: 'SibylError' })
    await onServer(`alter user '${database}'@'%' identified by '${password}'`)
  }
  await exchange.stop()
  let said = exchange.output()
  if (served) {
    address.password = `${password}x`
    const failed = openExchange({
      environment: { ...environment, SIBYL_DATABASE_URL: address.href },
    })
    await assert.rejects(failed, (error: Error) => {
      said += error.message
      return true
    })
    secrets.push(password)
  }
  assert.ok(said.split('\n').length > 5, 'the exchange has written something')
  for (const secret of secrets) {
    const at = said.indexOf(secret)
    assert.equal(at, -1, `a secret is in the log: ${said.slice(Math.max(0, at - 200), at + 20)}`)
  }
  for (const { key } of [ann, bob]) assert.ok(!said.includes(key.slice(2)))
})
