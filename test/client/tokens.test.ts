import assert from 'node:assert/strict'
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { openApiKey } from '#client/api-keys.ts'
import { createClient } from '#client/client.ts'
import { type ApiKeyPair, mintToken, withApiKey } from '#client/tokens.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { systemClock } from '#runtime/clock.ts'

function makeKey(): { pair: ApiKeyPair; publicKey: string } {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { d = '', x = '' } = privateKey.export({ format: 'jwk' })
  const hex = (text: string) => Buffer.from(text, 'base64url').toString('hex')
  return { pair: { id: randomUUID(), privateKey: hex(d) }, publicKey: hex(x) }
}

const { pair, publicKey } = makeKey()

function authenticator() {
  return makeAuthenticator({
    findKey: async (id) =>
      id !== pair.id
        ? undefined
        : {
            id,
            address: `0x${'11'.repeat(20)}` as never,
            name: '',
            publicKey,
            createdAtMs: 0,
            expiresAtSec: null,
            revokedAtMs: null,
          },
    nonces: makeNonceLedger(makeSharedTable(1_000, 's')),
    singleUse: true,
    clock: systemClock,
    startedAtMs: 0,
  })
}

const answer = (body: object, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers })

test('the exchange accepts each request token of the SDK exactly once', async () => {
  const { identify } = authenticator()
  for (const key of [pair, { ...pair, privateKey: `0x${pair.privateKey.toUpperCase()}` }]) {
    const header = `Bearer ${await mintToken(key, Date.now())}`
    assert.ok('keyId' in (await identify(header)))
    assert.deepEqual(await identify(header), { rejected: 'UNAUTHORIZED_TOKEN_USED' })
  }
})

test('every attempt of a write has a new request token, and reads have no token', async () => {
  const { identify } = authenticator()
  const seen: [string, string | null][] = []
  const client = createClient(
    withApiKey(
      {
        url: 'http://127.0.0.1:1',
        backoffMs: 1,
        headers: () => ({ 'x-mine': 'kept' }),
        fetch: async (_, init = {}) => {
          const headers = new Headers(init.headers)
          assert.equal(headers.get('x-mine'), 'kept')
          seen.push([init.method ?? '', headers.get('authorization')])
          if (init.method === 'GET') return answer({ markets: [], count: 0 })
          if (seen.length < 3) {
            return answer({ error: 'busy', code: 'OVERLOADED' }, 503, { 'retry-after': '0' })
          }
          return answer({ status: 'cancelled', orderHashes: [], count: 0 })
        },
      },
      pair,
    ),
  )
  await client.markets()
  await client.orders.cancelAll()
  assert.deepEqual(
    seen.map(([method]) => method),
    ['GET', 'DELETE', 'DELETE'],
  )
  assert.equal(seen[0]?.[1], null)
  for (const [, header] of seen.slice(1)) assert.ok('keyId' in (await identify(header ?? '')))
})

test('the client retries a refused token only if the refusal can come from the client’s wrong clock', async () => {
  for (const [code, offMs, attempts] of [
    ['UNAUTHORIZED_TOKEN_EXPIRED', 0, 1],
    ['UNAUTHORIZED_TOKEN_EXPIRED', 600_000, 2],
    ['UNAUTHORIZED_INVALID_TOKEN', -600_000, 2],
    ['UNAUTHORIZED_KEY_INACTIVE', 600_000, 1],
  ] as const) {
    let sent = 0
    const date = new Date(Date.now() + offMs).toUTCString()
    const client = createClient(
      withApiKey(
        {
          url: 'http://127.0.0.1:1',
          fetch: async () => {
            sent++
            return answer({ error: 'no', code }, 401, { date })
          },
        },
        pair,
      ),
    )
    await assert.rejects(client.orders.cancelAll(), { code, status: 401 })
    assert.equal(sent, attempts, `${code} ${offMs}`)
  }
})

test('a 401 answer that is not JSON is not retried, even if the client’s clock was wrong', async () => {
  let sent = 0
  const date = new Date(Date.now() + 600_000).toUTCString()
  const fetch = async () => {
    sent++
    return new Response('who are you?', { status: 401, headers: { date } })
  }
  const client = createClient(withApiKey({ url: 'http://127.0.0.1:1', fetch }, pair))
  await assert.rejects(client.orders.cancelAll(), { code: 'UNEXPECTED_ANSWER', status: 401 })
  assert.equal(sent, 1)
})

test('an invalid private key is refused at once and never printed', () => {
  const privateKey = 'not-a-key-but-maybe-a-secret'
  assert.throws(
    () => withApiKey({ url: 'http://127.0.0.1:1' }, { id: 'a', privateKey }),
    (error: Error) => error.name === 'SibylError' && !error.message.includes(privateKey),
  )
})

test('a stored API key is used until it expires, and invalid stored data is ignored', async () => {
  const wallet = {
    address: `0x${'22'.repeat(20)}`,
    signMessage: async () => `0x${'00'.repeat(65)}`,
  }
  const nowSec = Math.floor(Date.now() / 1_000)
  const key = { ...pair, address: wallet.address }
  for (const [kept, registers] of [
    [null, true],
    [JSON.stringify(key), false],
    [JSON.stringify({ ...key, expiresAt: nowSec + 3_600 }), false],
    [JSON.stringify({ ...key, expiresAt: nowSec + 5 }), true],
    ['{', true],
    ['null', true],
    ['{"id":"a"}', true],
  ] as const) {
    let registered = 0
    let saved = ''
    const opened = await openApiKey(
      {
        url: 'http://127.0.0.1:1',
        fetch: async (_, init = {}) => {
          if (init.method === 'GET') return answer({ service: { name: 'Sibyl' } })
          registered++
          return answer({ success: true, api_key_id: 'new', api_private_key: 'ab' })
        },
      },
      wallet,
      {
        getItem: () => kept,
        setItem: (_, value) => {
          saved = value
        },
        removeItem: () => undefined,
      },
    )
    assert.deepEqual(
      [registered === 1, opened.id],
      [registers, registers ? 'new' : key.id],
      String(kept),
    )
    assert.equal(saved !== '', registers)
  }
})

test('if the caller provides a clock, the client uses it and ignores the dates in answers', async () => {
  const aheadMs = 86_400_000
  const seen: number[] = []
  const options = {
    url: 'http://127.0.0.1:1',
    fetch: async (_: unknown, init: RequestInit = {}) => {
      const [payload = ''] =
        new Headers(init.headers).get('authorization')?.slice(7).split('.') ?? []
      const { ts } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { ts: number }
      seen.push(ts * 1_000 - Date.now())
      const date = new Date().toUTCString()
      return answer({ status: 'cancelled', orderHashes: [], count: 0 }, 200, { date })
    },
  } as Parameters<typeof withApiKey>[0]
  const nowMs = () => Date.now() + aheadMs
  const client = createClient(withApiKey(options, pair, { nowMs }))
  for (let turn = 0; turn < 2; turn++) await client.orders.cancelAll()
  assert.equal(seen.length, 2)
  for (const seenMs of seen) assert.ok(Math.abs(seenMs - aheadMs) < 60_000, `${seenMs}`)
})

test('each connection of the stream authenticates with a new request token', async () => {
  const { identify } = authenticator()
  const { streamHeaders } = withApiKey({ url: 'http://127.0.0.1:1' }, pair)
  for (let connection = 0; connection < 2; connection++) {
    const { authorization = '' } = (await streamHeaders?.()) ?? {}
    assert.ok('keyId' in (await identify(authorization)))
  }
})
