import assert from 'node:assert/strict'
import { sign } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type { ApiKey } from '#domain/api-key.ts'
import { Fault } from '#domain/fault.ts'
import { isRejection } from '#domain/rejection.ts'
import { type Authenticator, makeAuthenticator } from '#http/auth.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { eventually } from '../support/eventually.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import { postText, startTestFront } from './front-fixture.ts'
import { encode, freshNonce, makeKey, mint, type TestKey, tokenOf } from './tokens.ts'

const START_MS = 1_800_000_000_000
const NOW_MS = START_MS + 3_600_000
const NOW_SEC = NOW_MS / 1_000

const MISSING = ['UNAUTHORIZED_MISSING_HEADER', 'missing authorization header'] as const
const FORMAT = ['UNAUTHORIZED_INVALID_FORMAT', 'invalid authorization format'] as const
const TOKEN = ['UNAUTHORIZED_INVALID_TOKEN', 'invalid token format'] as const
const ahead = (seconds: number) =>
  [
    'UNAUTHORIZED_INVALID_TOKEN',
    `ts of the bearer token must be at most 60 s ahead of the exchange's clock, but it is ${seconds} s ahead: correct the clock of your machine`,
  ] as const
const EXPIRED = ['UNAUTHORIZED_TOKEN_EXPIRED', 'token expired'] as const
const NOT_FOUND = ['UNAUTHORIZED_KEY_NOT_FOUND', 'API key not found'] as const
const INACTIVE = ['UNAUTHORIZED_KEY_INACTIVE', 'API key is inactive'] as const
const KEY_EXPIRED = ['UNAUTHORIZED_KEY_EXPIRED', 'API key has expired'] as const
const SIGNATURE = ['UNAUTHORIZED_INVALID_SIGNATURE', 'invalid signature'] as const
const USED = [
  'UNAUTHORIZED_TOKEN_USED',
  'the token was already used: make a new token for each request',
] as const

const live = makeKey()
const other = makeKey()
const revoked = makeKey({ revokedAtMs: NOW_MS - 1 })
const expired = makeKey({ expiresAtSec: NOW_SEC })
const expiring = makeKey({ expiresAtSec: NOW_SEC + 1 })
const revokedAndExpired = makeKey({ revokedAtMs: 1, expiresAtSec: 1 })
const stranger = makeKey()

function given(
  options: Partial<Parameters<typeof makeAuthenticator>[0]> = {},
  keys: readonly TestKey[] = [live, other, revoked, expired, expiring, revokedAndExpired],
) {
  const byId = new Map<string, ApiKey>(keys.map(({ key }) => [key.id, key]))
  const clock = simulatedClock(NOW_MS)
  let asked = 0
  const authenticator = makeAuthenticator({
    findKey: async (id) => {
      asked++
      return byId.get(id)
    },
    nonces: makeNonceLedger(makeSharedTable(10_000, 'secret')),
    singleUse: true,
    clock,
    startedAtMs: START_MS,
    ...options,
  })
  return { authenticator, clock, byId, asked: () => asked }
}

async function startBearerFront(t: TestContext, authenticator: Authenticator) {
  return startTestFront(t, undefined, {
    services: {
      readiness: () => ({}),
      authenticate: ({ authorization }) => authenticator.identify(authorization),
    },
  })
}

const BODY = JSON.stringify({
  order: { nonce: 1, price: 1, trader: `0x${'cd'.repeat(20)}`, side: 0 },
})

type Row = readonly [
  what: string,
  header: () => string | undefined,
  expected: readonly [code: string, text: string] | 'accepted',
]

const bearer = (fields: Record<string, unknown> = {}, by = live) =>
  `Bearer ${mint(by, NOW_MS, fields)}`
const bearerOf = (payload: unknown, by = live) => `Bearer ${tokenOf(payload, by.privateKey)}`
/** Makes a token, and returns it after `change` has edited its two segments. */
const cut = (change: (payload: string, signature: string) => string) => {
  const [payload = '', signature = ''] = mint(live, NOW_MS).split('.')
  return `Bearer ${change(payload, signature)}`
}
const raw = (json: string) => bearerOf(json)
const n = () => freshNonce()
const kid = live.key.id

const ROWS: readonly Row[] = [
  ['a token as it should be', () => bearer(), 'accepted'],
  ['fields that are not asked for', () => bearer({ more: [1], v: 2 }), 'accepted'],
  ['a nonce in capitals', () => bearer({ n: 'ABCDEF'.padEnd(32, '0') }), 'accepted'],
  [
    'white space in the payload',
    () => raw(`{ "kid": "${kid}",\n "ts": ${NOW_SEC}, "n": "${n()}" }`),
    'accepted',
  ],
  [
    'a signature over the characters of the segment',
    () => {
      const segment = encode({ kid, ts: NOW_SEC, n: n() })
      const signature = sign(null, Buffer.from(segment), live.privateKey)
      return `Bearer ${segment}.${signature.toString('base64url')}`
    },
    'accepted',
  ],
  ['the last second of its life', () => bearer({ ts: NOW_SEC - 299 }), 'accepted'],
  ['a clock that is a minute ahead', () => bearer({ ts: NOW_SEC + 60 }), 'accepted'],
  ['the last second of a key', () => bearer({}, expiring), 'accepted'],

  ['no header', () => undefined, MISSING],
  ['an empty header', () => '', MISSING],

  ['another scheme', () => 'Basic dXNlcjpwYXNz', FORMAT],
  ['the scheme alone', () => 'Bearer', FORMAT],
  ['a token alone', () => mint(live, NOW_MS), FORMAT],
  ['the scheme in small letters', () => bearer().replace('Bearer', 'bearer'), FORMAT],
  ['two spaces', () => bearer().replace(' ', '  '), FORMAT],
  ['two tokens', () => `${bearer()} ${mint(live, NOW_MS)}`, FORMAT],
  ['a tab for a space', () => bearer().replace(' ', '\t'), FORMAT],

  ['no dot', () => cut((payload, signature) => payload + signature), TOKEN],
  ['a dot more in front', () => cut((payload, signature) => `.${payload}.${signature}`), TOKEN],
  ['a dot more at the end', () => cut((payload, signature) => `${payload}.${signature}.`), TOKEN],
  [
    'three segments',
    () => cut((payload, signature) => `${payload}.${signature}.${signature}`),
    TOKEN,
  ],
  ['no payload', () => cut((_, signature) => `.${signature}`), TOKEN],
  ['no signature', () => cut((payload) => `${payload}.`), TOKEN],
  ['two dots', () => cut((payload, signature) => `${payload}..${signature}`), TOKEN],
  ['a padded payload', () => cut((payload, signature) => `${payload}=.${signature}`), TOKEN],
  ['a padded signature', () => cut((payload, signature) => `${payload}.${signature}==`), TOKEN],
  [
    'the standard alphabet',
    () => {
      // The base64 of this text has characters that base64url does not use.
      const segment = Buffer.from(
        `{"kid":"${kid}","ts":${NOW_SEC},"n":"${n()}","x":"ÿÿ~~~~>>>???"}`,
      )
      const signature = sign(null, segment, live.privateKey)
      const standard = `${segment.toString('base64')}.${signature.toString('base64')}`
      assert.match(standard, /[+/=]/)
      return `Bearer ${standard}`
    },
    TOKEN,
  ],
  [
    'hex',
    () =>
      cut((payload, signature) =>
        [payload, signature]
          .map((part) => Buffer.from(part, 'base64url').toString('hex'))
          .join('.'),
      ),
    TOKEN,
  ],
  [
    'characters of no alphabet',
    () => cut((payload, signature) => `${payload.slice(0, -1)}!.${signature}`),
    TOKEN,
  ],
  [
    'bits behind the last byte',
    () =>
      cut((payload, signature) => {
        const last = signature.at(-1) ?? ''
        const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
        return `${payload}.${signature.slice(0, -1)}${alphabet[alphabet.indexOf(last) ^ 1]}`
      }),
    TOKEN,
  ],
  [
    'a signature of 63 bytes',
    () =>
      cut(
        (payload, signature) =>
          `${payload}.${Buffer.from(signature, 'base64url').subarray(1).toString('base64url')}`,
      ),
    TOKEN,
  ],
  [
    'a signature of 65 bytes',
    () =>
      cut(
        (payload, signature) =>
          `${payload}.${Buffer.concat([Buffer.from(signature, 'base64url'), Buffer.of(0)]).toString('base64url')}`,
      ),
    TOKEN,
  ],
  ['a huge payload', () => bearer({ more: 'x'.repeat(1_000) }), TOKEN],
  [
    'a huge signature',
    () => cut((payload, signature) => `${payload}.${signature.repeat(30)}`),
    TOKEN,
  ],
  ['the segments swapped', () => cut((payload, signature) => `${signature}.${payload}`), TOKEN],

  ['no JSON', () => raw('kid ts n'), TOKEN],
  ['an empty object', () => raw('{}'), TOKEN],
  ['null', () => raw('null'), TOKEN],
  ['a list', () => raw(`["${kid}",${NOW_SEC},"${n()}"]`), TOKEN],
  ['a text', () => raw(`"${kid}"`), TOKEN],
  [
    'JSON with something behind it',
    () => raw(`{"kid":"${kid}","ts":${NOW_SEC},"n":"${n()}"} x`),
    TOKEN,
  ],
  ['no kid', () => bearerOf({ ts: NOW_SEC, n: n() }), TOKEN],
  ['no ts', () => bearerOf({ kid, n: n() }), TOKEN],
  ['no n', () => bearerOf({ kid, ts: NOW_SEC }), TOKEN],
  ['a kid that is a number', () => bearer({ kid: 7 }), TOKEN],
  ['a kid that is null', () => bearer({ kid: null }), TOKEN],
  ['a ts that is a text', () => bearer({ ts: String(NOW_SEC) }), TOKEN],
  ['a ts with a fraction', () => bearer({ ts: NOW_SEC + 0.5 }), TOKEN],
  ['a ts that is true', () => bearer({ ts: true }), TOKEN],
  ['a ts too large for anything', () => raw(`{"kid":"${kid}","ts":1e400,"n":"${n()}"}`), TOKEN],
  ['a ts in milliseconds', () => bearer({ ts: NOW_MS }), TOKEN],
  ['a ts 61 seconds ahead', () => bearer({ ts: NOW_SEC + 61 }), ahead(61)],
  ['a clock ten minutes fast', () => bearer({ ts: NOW_SEC + 600 }), ahead(600)],
  [
    'a ts of the largest int64',
    () => raw(`{"kid":"${kid}","ts":9223372036854775807,"n":"${n()}"}`),
    TOKEN,
  ],
  ['a nonce of 31 characters', () => bearer({ n: 'a'.repeat(31) }), TOKEN],
  ['a nonce of 33 characters', () => bearer({ n: 'a'.repeat(33) }), TOKEN],
  ['a nonce that is not hex', () => bearer({ n: 'g'.repeat(32) }), TOKEN],
  ['a nonce that is a number', () => bearer({ n: 1 }), TOKEN],

  ['a token of five minutes ago', () => bearer({ ts: NOW_SEC - 301 }), EXPIRED],
  ['a token that is five minutes old', () => bearer({ ts: NOW_SEC - 300 }), EXPIRED],
  ['a ts of zero', () => bearer({ ts: 0 }), EXPIRED],
  ['a negative ts', () => bearer({ ts: -NOW_SEC }), EXPIRED],
  [
    'the smallest int64',
    () => raw(`{"kid":"${kid}","ts":-9223372036854775808,"n":"${n()}"}`),
    EXPIRED,
  ],
  ['an old token of an unknown key', () => bearer({ ts: 1 }, stranger), EXPIRED],

  ['a key that was never registered', () => bearer({}, stranger), NOT_FOUND],
  ['an empty kid', () => bearer({ kid: '' }), NOT_FOUND],
  ['a kid with a space behind it', () => bearer({ kid: `${kid} ` }), NOT_FOUND],
  ['a kid in capitals', () => bearer({ kid: kid.toUpperCase() }), NOT_FOUND],
  ['a kid that speaks SQL', () => bearer({ kid: "' or 1=1 --" }), NOT_FOUND],
  ['a kid beyond ASCII', () => bearer({ kid: 'ключ' }), NOT_FOUND],

  ['a revoked key', () => bearer({}, revoked), INACTIVE],
  ['a key that is revoked and expired', () => bearer({}, revokedAndExpired), INACTIVE],
  [
    'a revoked key and a wrong signature',
    () => bearerOf({ kid: revoked.key.id, ts: NOW_SEC, n: n() }),
    INACTIVE,
  ],

  ['a key that has expired', () => bearer({}, expired), KEY_EXPIRED],
  [
    'an expired key and a wrong signature',
    () => bearerOf({ kid: expired.key.id, ts: NOW_SEC, n: n() }),
    KEY_EXPIRED,
  ],

  ['the kid of another key', () => bearer({ kid: other.key.id }), SIGNATURE],
  [
    'the signature of another payload',
    () => {
      const [, signature] = mint(live, NOW_MS).split('.')
      const [payload] = mint(live, NOW_MS).split('.')
      return `Bearer ${payload}.${signature}`
    },
    SIGNATURE,
  ],
  [
    'the payload of another key with its signature made by this one',
    () => {
      const [payload = ''] = mint(other, NOW_MS).split('.')
      const signature = sign(null, Buffer.from(payload, 'base64url'), live.privateKey)
      return `Bearer ${payload}.${signature.toString('base64url')}`
    },
    SIGNATURE,
  ],
  [
    'a signature of zeros',
    () => cut((payload) => `${payload}.${Buffer.alloc(64).toString('base64url')}`),
    SIGNATURE,
  ],
  [
    'a signature over the payload with padding',
    () => {
      const segment = encode({ kid, ts: NOW_SEC, n: n() })
      const signature = sign(null, Buffer.from(`${segment}==`), live.privateKey)
      return `Bearer ${segment}.${signature.toString('base64url')}`
    },
    SIGNATURE,
  ],
]

test('each kind of invalid request token is refused with the documented error', async (t) => {
  const { authenticator } = given()
  const { url } = await startBearerFront(t, authenticator)
  for (const [what, header, expected] of ROWS) {
    await t.test(what, async () => {
      const authorization = header()
      const response = await fetch(`${url}/orders`, {
        method: 'POST',
        body: BODY,
        headers: {
          'content-type': 'application/json',
          ...(authorization === undefined ? {} : { authorization }),
        },
      })
      if (expected === 'accepted') {
        assert.equal(response.status, 200, await response.text())
        return
      }
      const [code, error] = expected
      assert.deepEqual([response.status, await response.json()], [401, { error, code }])
      assert.equal(response.headers.get('www-authenticate'), 'Bearer')
    })
  }
})

test('a request token with one changed character is refused', async () => {
  const { authenticator } = given()
  const token = mint(live, NOW_MS)
  const classes = ['A', 'z', '5', '-', '_', '+', '/', '=', '.', '%', '\u00e9']
  const refused = new Map<string, number>()
  for (let at = 0; at < token.length; at++) {
    for (const character of classes) {
      if (token[at] === character) continue
      const spoilt = token.slice(0, at) + character + token.slice(at + 1)
      const answer = await authenticator.identify(`Bearer ${spoilt}`)
      assert.ok('rejected' in answer, `${character} at ${at} was let through`)
      refused.set(answer.rejected, (refused.get(answer.rejected) ?? 0) + 1)
    }
  }
  for (const [code] of [TOKEN, NOT_FOUND, SIGNATURE]) assert.ok((refused.get(code) ?? 0) > 0, code)
  const answer = await authenticator.identify(`Bearer ${token}`)
  assert.deepEqual(answer, { keyId: live.key.id, address: live.key.address })
})

test('a request token’s nonce is accepted only once across all threads, in upper or lower case', async () => {
  const memory = makeSharedTable(1_000, 'secret')
  const here = given({ nonces: makeNonceLedger(memory) }).authenticator
  const there = given({ nonces: makeNonceLedger(memory) }).authenticator
  const ts = NOW_SEC
  const nonce = 'abcdef0123456789abcdef0123456789'
  const token = `Bearer ${mint(live, NOW_MS, { ts, n: nonce })}`
  assert.ok('keyId' in (await here.identify(token)))
  for (const [where, header] of [
    [here, token],
    [there, token],
    [there, `Bearer ${mint(live, NOW_MS, { ts: ts + 1, n: nonce.toUpperCase() })}`],
  ] as const) {
    assert.deepEqual(await where.identify(header), { rejected: USED[0] })
  }
  const ofOther = await there.identify(`Bearer ${mint(other, NOW_MS, { n: nonce })}`)
  assert.ok('keyId' in ofOther, 'another key may use the same nonce')
})

test('if a client sends one request token a hundred times at once, only one request is accepted', async () => {
  const { authenticator } = given()
  const header = `Bearer ${mint(live, NOW_MS)}`
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => authenticator.identify(header)),
  )
  assert.equal(answers.filter((answer) => 'keyId' in answer).length, 1)
})

test('a request token with a wrong signature does not use up its nonce', async () => {
  const { authenticator } = given()
  const token = mint(live, NOW_MS)
  const [payload] = token.split('.')
  const forged = `Bearer ${payload}.${Buffer.alloc(64, 1).toString('base64url')}`
  assert.deepEqual(await authenticator.identify(forged), { rejected: SIGNATURE[0] })
  assert.ok('keyId' in (await authenticator.identify(`Bearer ${token}`)))
})

test('a key can use a nonce again only after the token with this nonce has expired', async () => {
  const { authenticator, clock } = given()
  const nonce = freshNonce()
  const send = () => authenticator.identify(`Bearer ${mint(live, clock.nowMs(), { n: nonce })}`)
  assert.ok('keyId' in (await send()))
  clock.advance(299_000)
  assert.deepEqual(await send(), { rejected: USED[0] })
  clock.advance(1_000)
  assert.ok('keyId' in (await send()))
})

test('a request token is refused with OVERLOADED if there is no room to record its nonce', async () => {
  const { authenticator, clock } = given({ nonces: makeNonceLedger(makeSharedTable(1, 'secret')) })
  let room = 0
  for (; ; room++) {
    const answer = await authenticator.identify(`Bearer ${mint(live, clock.nowMs())}`)
    if (!('keyId' in answer)) {
      assert.deepEqual(answer, { rejected: 'OVERLOADED' })
      break
    }
  }
  assert.ok(room >= 1)
  clock.advance(300_000)
  assert.ok('keyId' in (await authenticator.identify(`Bearer ${mint(live, clock.nowMs())}`)))
})

test('after a restart, the server refuses older single-use tokens as expired, but accepts older reusable tokens', async () => {
  const startedAtMs = NOW_MS - 10_500
  const before = { ts: NOW_SEC - 11 }
  const once = given({ startedAtMs }).authenticator
  assert.deepEqual(await once.identify(bearer(before)), { rejected: EXPIRED[0] })
  assert.ok('keyId' in (await once.identify(bearer({ ts: NOW_SEC - 10 }))))
  const often = given({ startedAtMs, singleUse: false }).authenticator
  const token = bearer(before)
  for (let use = 0; use < 3; use++) assert.ok('keyId' in (await often.identify(token)))
})

test('the body of a request is parsed only after its sender is authenticated', async (t) => {
  const { url } = await startBearerFront(t, given().authenticator)
  const response = await postText(`${url}/orders`, '{ this is no JSON')
  assert.equal(response.status, 401)
  const known = await fetch(`${url}/orders`, {
    method: 'POST',
    body: '{ this is no JSON',
    headers: { 'content-type': 'application/json', authorization: bearer() },
  })
  assert.equal(((await known.json()) as { code: string }).code, 'INVALID_JSON')
  const long = JSON.stringify({ ...JSON.parse(BODY), tags: ['x'.repeat(40_000)] })
  const whole = await fetch(`${url}/orders`, {
    method: 'POST',
    body: long,
    headers: { 'content-type': 'application/json', authorization: bearer() },
  })
  assert.deepEqual(
    ((await whole.json()) as { got: { tags: string[] } }).got.tags[0]?.length,
    40_000,
  )
})

test('requests with one API key cause at most one database query per minute', async () => {
  const { authenticator, clock, asked } = given()
  const many = () =>
    Promise.all(
      Array.from({ length: 50 }, () =>
        authenticator.identify(`Bearer ${mint(live, clock.nowMs())}`),
      ),
    )
  for (const answer of await many()) assert.ok('keyId' in answer)
  await many()
  clock.advance(59_999)
  await many()
  assert.equal(asked(), 1)
  clock.advance(1)
  await many()
  assert.equal(asked(), 2)
})

test('a revoked key is refused at once by the server that received the revocation, and by other servers within a minute', async () => {
  const { authenticator, clock, byId } = given()
  const send = () => authenticator.identify(`Bearer ${mint(live, clock.nowMs())}`)
  assert.ok('keyId' in (await send()))
  byId.set(live.key.id, { ...live.key, revokedAtMs: NOW_MS })
  clock.advance(60_000)
  assert.deepEqual(await send(), { rejected: INACTIVE[0] })

  const second = given()
  const sendSecond = () => second.authenticator.identify(`Bearer ${mint(live, NOW_MS)}`)
  assert.ok('keyId' in (await sendSecond()))
  second.byId.set(live.key.id, { ...live.key, revokedAtMs: NOW_MS })
  second.authenticator.revoked([live.key.id])
  assert.deepEqual(await sendSecond(), { rejected: INACTIVE[0] })
})

test('a front confirms a cached API key without a database query unless it may have missed a revocation', async () => {
  const { authenticator, clock, byId, asked } = given()
  const principal = await authenticator.identify(bearer())
  assert.deepEqual(await authenticator.confirm(live.key.id), principal)
  assert.equal(asked(), 1)
  byId.set(live.key.id, { ...live.key, revokedAtMs: NOW_MS })
  clock.advance(1)
  authenticator.mayHaveMissed()
  assert.deepEqual(await authenticator.confirm(live.key.id), { rejected: INACTIVE[0] })
  assert.deepEqual(await authenticator.confirm('no key'), {
    rejected: 'UNAUTHORIZED_KEY_NOT_FOUND',
  })
})

test('if an API key is revoked while it is read from the database, the key is not cached', async () => {
  const gates = [Promise.withResolvers<ApiKey>(), Promise.withResolvers<ApiKey>()]
  let asked = 0
  const { authenticator } = given({ findKey: () => gates[asked++]!.promise })
  const early = authenticator.identify(bearer())
  authenticator.revoked([live.key.id])
  gates[0]?.resolve(live.key)
  await early
  const late = authenticator.identify(bearer())
  gates[1]?.resolve({ ...live.key, revokedAtMs: NOW_MS })
  assert.deepEqual(await late, { rejected: INACTIVE[0] })
})

test('while the database is unavailable, a front accepts only requests with cached API keys', async () => {
  let away = false
  const keys = new Map([live, other].map(({ key }) => [key.id, key]))
  const { authenticator, clock } = given({
    findKey: async (id) => {
      if (away) throw new Fault('STORE_UNAVAILABLE', 'away', { retryable: true })
      return keys.get(id)
    },
  })
  const send = (by: TestKey) => authenticator.identify(`Bearer ${mint(by, clock.nowMs())}`)
  assert.ok('keyId' in (await send(live)))
  away = true
  clock.advance(60_000)
  assert.ok('keyId' in (await send(live)))
  await assert.rejects(send(other), { code: 'STORE_UNAVAILABLE' })
  authenticator.revoked([live.key.id])
  await assert.rejects(send(live), { code: 'STORE_UNAVAILABLE' })
  away = false
  clock.advance(1)
  assert.ok('keyId' in (await send(live)))
  away = true
  clock.advance(60_000)
  assert.ok('keyId' in (await send(live)), 'known again')
  authenticator.mayHaveMissed()
  await assert.rejects(send(live), { code: 'STORE_UNAVAILABLE' })
})

test('if the database does not answer, a request with a cached key waits at most half a second', async () => {
  let hangs = false
  const never = new Promise<never>(() => undefined)
  const { authenticator, clock } = given({ findKey: async () => (hangs ? never : live.key) })
  const send = () => authenticator.identify(`Bearer ${mint(live, clock.nowMs())}`)
  assert.ok('keyId' in (await send()))
  hangs = true
  clock.advance(60_000)
  const waiting = send()
  await eventually(() => assert.equal(clock.pending, 1))
  clock.advance(500)
  assert.ok('keyId' in (await waiting))
})

test('a newly registered API key, or one recently not found, is checked without a database query', async () => {
  const { authenticator, clock, asked, byId } = given()
  const send = (by: TestKey) => authenticator.identify(`Bearer ${mint(by, clock.nowMs())}`)
  byId.delete(other.key.id)
  for (let n = 0; n < 10; n++) {
    assert.deepEqual(await send(other), { rejected: 'UNAUTHORIZED_KEY_NOT_FOUND' })
  }
  assert.equal(asked(), 1)
  authenticator.registered(other.key)
  assert.ok('keyId' in (await send(other)))
  assert.equal(asked(), 1)
  // If the front may have missed messages of the store, it looks up every key again.
  clock.advance(1)
  authenticator.mayHaveMissed()
  assert.deepEqual(await send(other), { rejected: 'UNAUTHORIZED_KEY_NOT_FOUND' })
  assert.equal(asked(), 2)
})

test('a front limits simultaneous lookups of unknown API keys, while a cached key needs no lookup', async () => {
  const never = new Promise<never>(() => undefined)
  const { authenticator, clock } = given({
    findKey: async (id) => (id === live.key.id ? live.key : never),
  })
  const send = (by: TestKey) => authenticator.identify(`Bearer ${mint(by, clock.nowMs())}`)
  assert.ok('keyId' in (await send(live)))
  const answers: unknown[] = []
  for (let n = 0; n < 100; n++) {
    const id = `${String(n).padStart(8, '0')}-0000-4000-8000-000000000000`
    const stranger = { ...other, key: { ...other.key, id } }
    void send(stranger).then((answer) => answers.push(answer))
  }
  await eventually(() => assert.equal(answers.length, 36))
  assert.deepEqual(
    new Set(answers.map((answer) => JSON.stringify(answer))),
    new Set(['{"rejected":"OVERLOADED"}']),
  )
  assert.ok('keyId' in (await send(live)))
})

/** Returns the result, and whether the work finished before the event loop turned. */
async function atOnce<Result>(work: Promise<Result>): Promise<[Result, boolean]> {
  let turned = false
  setImmediate(() => {
    turned = true
  })
  return [await work, !turned]
}

test('a reusable token’s signature is verified once, but its key and expiration on every request', async () => {
  const { authenticator, clock, byId } = given({ singleUse: false })
  const header = bearer()
  const principal = { keyId: live.key.id, address: live.key.address }
  assert.deepEqual(await authenticator.identify(header), principal)
  assert.equal(authenticator.remembered, 1)
  assert.deepEqual(await atOnce(authenticator.identify(header)), [principal, true])

  // A token with the same payload and another token's signature.
  const [payload = ''] = header.slice('Bearer '.length).split('.')
  const forged = mint(other, NOW_MS).split('.')[1]
  const refusal = (header: string) =>
    authenticator.identify(header).then((answer) => isRejection(answer) && answer.rejected)
  assert.equal(await refusal(`Bearer ${payload}.${forged}`), SIGNATURE[0])
  assert.equal(authenticator.remembered, 1)

  // The key's id now belongs to another public key, so the cached check of the signature must not apply.
  byId.set(live.key.id, { ...live.key, publicKey: other.key.publicKey })
  clock.advance(1_000)
  authenticator.revoked([live.key.id])
  assert.equal(await refusal(header), SIGNATURE[0])

  byId.set(live.key.id, { ...live.key, revokedAtMs: NOW_MS })
  clock.advance(1_000)
  authenticator.revoked([live.key.id])
  assert.equal(await refusal(header), INACTIVE[0])

  clock.advance(300_000)
  assert.equal(await refusal(header), EXPIRED[0])
  assert.equal(authenticator.remembered, 0)
})

test('the number of cached reusable tokens is limited, and single-use tokens are not cached', async () => {
  const often = given({ singleUse: false, tokensMax: 3 }).authenticator
  const first = bearer()
  for (const header of [first, bearer(), bearer(), bearer(), bearer(), first]) {
    assert.equal(isRejection(await often.identify(header)), false)
    assert(often.remembered <= 3)
  }
  const once = given().authenticator
  assert.equal(isRejection(await once.identify(first)), false)
  assert.equal(once.remembered, 0)
  const again = await once.identify(first)
  assert(isRejection(again))
  assert.equal(again.rejected, USED[0])
})
