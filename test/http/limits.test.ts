import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import Type from 'typebox'
import type { Address } from '#domain/ids.ts'
import { ipText, limitedRange, makeClientIp, siteOf } from '#http/client-ip.ts'
import { makeConnectionGate } from '#http/connection-gate.ts'
import { countPeers } from '#http/count-peers.ts'
import { makeDraws, readDraws } from '#http/draws.ts'
import { type LimitSettings, makeLimiter } from '#http/limits.ts'
import { ok, type Principal, route, upgradeRoute } from '#http/route.ts'
import type { FrontSettings } from '#http/server.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { eventually } from '../support/eventually.ts'
import { withSeeds } from '../support/random.ts'
import {
  closed,
  openRaw,
  postText,
  readResponses,
  sendRaw,
  startTestFront,
} from './front-fixture.ts'
import { ARRIVAL, LIMITS } from './limit-fixture.ts'

const KEY: Principal = { keyId: 'k', address: `0x${'11'.repeat(20)}` as Address }

test('the threads of an exchange together limit an IP address exactly like one token bucket', () => {
  withSeeds([1, 2, 3, 4, 5, 6, 7, 8], (random) => {
    const ipPerSecond = random.int(1, 2_000)
    const ipBurst = random.int(100, 5_000)
    const costs = { readCost: random.int(1, 3), writeCost: random.int(1, 20) }
    const memory = makeSharedTable(1_000, 'secret')
    let nowMs = random.int(1, 1_000_000_000)
    const settings: LimitSettings = { ...LIMITS, ...costs, ipPerSecond, ipBurst }
    const threads = Array.from({ length: 4 }, () => makeLimiter(settings, memory, () => nowMs))
    const drawn: { atMs: number; cost: number }[] = []
    // A simple model of a bucket, which tells whether a request must be allowed or refused.
    let tokens = ipBurst
    let countedAtMs = nowMs
    for (let step = 0; step < 600; step++) {
      nowMs += random.chance(0.7) ? random.next() : random.next() * 3_000
      const cost = random.chance(0.5) ? 'read' : 'write'
      const units = cost === 'read' ? costs.readCost : costs.writeCost
      const more = random.chance(0.2) ? random.int(1, 20) : 0
      const thread = random.pick(threads)
      const arrival = { ...ARRIVAL, cost } as const
      const asked = more === 0 ? units : units * more
      const verdict =
        more === 0 ? thread.limit(arrival, undefined) : thread.limitMore(arrival, undefined, more)
      tokens = Math.min(ipBurst, tokens + ((nowMs - countedAtMs) / 1_000) * ipPerSecond)
      countedAtMs = nowMs
      if (Math.abs(tokens - asked) > 0.01) assert.equal(verdict.allowed, tokens >= asked)
      if (verdict.allowed) {
        tokens -= asked
        drawn.push({ atMs: nowMs, cost: asked })
      }
    }
    for (let from = 0; from < drawn.length; from++) {
      let sum = 0
      for (let to = from; to < drawn.length; to++) {
        sum += drawn[to]!.cost
        const seconds = (drawn[to]!.atMs - drawn[from]!.atMs) / 1_000
        assert.ok(sum <= ipBurst + ipPerSecond * seconds + 0.1, `${sum} in ${seconds} s`)
      }
    }
  })
})

test('units that a client spends at one machine are also subtracted at other machines', () => {
  let nowMs = 5_000
  const here = makeLimiter(LIMITS, makeSharedTable(10, 's'), () => nowMs)
  const draws = makeDraws(2)
  const there = makeLimiter(LIMITS, makeSharedTable(10, 't'), () => nowMs, draws.note)
  const leftOf = ({ limitMore }: typeof here, ip: string): number => {
    const { headers } = limitMore({ ...ARRIVAL, ip }, undefined, 0)
    return Number(headers['ratelimit-remaining'])
  }
  const read = (ip: string) => there.limit({ ...ARRIVAL, ip, cost: 'read' }, undefined)
  for (let times = 0; times < 3; times++) assert(read('10.0.0.1').allowed)
  assert(read('10.0.0.2').allowed)
  // A message between machines has room for the spent units of two IP addresses. So the message does not contain the
  // units that the third address spends.
  assert(read('10.0.0.3').allowed)
  const taken = draws.take()
  assert.deepEqual(draws.take(), [])
  here.drawnElsewhere(taken)
  for (const ip of ['10.0.0.1', '10.0.0.2']) assert.equal(leftOf(here, ip), leftOf(there, ip))
  assert(leftOf(here, '10.0.0.1') < LIMITS.ipBurst)
  assert.equal(leftOf(here, '10.0.0.3'), LIMITS.ipBurst)
  const ranks = taken.map(([name, , capacityMs]) => [name, 10 * capacityMs, capacityMs] as const)
  here.drawnElsewhere(ranks)
  assert.equal(leftOf(here, '10.0.0.1'), 0)
  nowMs += (LIMITS.ipBurst / LIMITS.ipPerSecond) * 1_000
  assert.equal(leftOf(here, '10.0.0.1'), LIMITS.ipBurst)
})

test('a front ignores malformed reports of spent units from other machines', () => {
  for (const said of [undefined, null, 5, 'text', {}]) assert.deepEqual(readDraws(said), [])
  const draw = ['ip 10.0.0.1', 5, 10] as const
  const odd = [null, 5, [], ['a'], ['a', '5', 10], ['a', -5, 10], ['a', 5, null], [1, 5, 10]]
  assert.deepEqual(readDraws([...odd, draw]), [draw])
})

test('orders without sufficient funds have their own rate limit, which reads and cancels do not share', () => {
  let nowMs = 5_000
  const draws = makeDraws(9)
  const limiter = makeLimiter(LIMITS, makeSharedTable(50, 's'), () => nowMs, draws.note)
  const { unfunded } = limiter
  const { unfundedBurst: burst, unfundedPerSecond: perSecond } = LIMITS
  const count = (ip: string, times: number, principal?: Principal) => {
    for (let n = 0; n < times; n++) unfunded.count(ip, principal)
  }
  assert.equal(unfunded.waitSec('10.0.0.1', KEY), 0)
  count('10.0.0.1', burst - 1, KEY)
  assert.equal(draws.take().length, 2, 'other machines hear of the address and the key')
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 0)
  count('10.0.0.1', 1, KEY)
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 1)
  assert.equal(unfunded.waitSec('10.0.0.2', KEY), 1, 'the key from another address')
  assert.equal(unfunded.waitSec('10.0.0.2', undefined), 0)
  assert(
    limiter.limit({ ...ARRIVAL, ip: '10.0.0.1' }, undefined).allowed,
    'reads and cancels go on',
  )
  nowMs += 1_000 / perSecond
  assert.equal(unfunded.waitSec('10.0.0.1', KEY), 0)
  // Orders that were in flight when the address was first refused still count. They bring its bucket below zero, so
  // later orders must wait longer.
  count('10.0.0.1', 1 + 5 * perSecond)
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 6)
  nowMs += 5_000
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 1)
  nowMs += 1_000 / perSecond
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 0)
  count('10.0.0.1', 100_000)
  assert.equal(unfunded.waitSec('10.0.0.1', undefined), 61, 'and no more than a minute')
  const [one, other, far] = ['2001:db8:1:1::1', '2001:db8:1:2::1', '2001:db8:2:1::1'] as const
  count(one, burst * LIMITS.siteTimes)
  assert.deepEqual(
    [one, other, far].map((ip) => unfunded.waitSec(ip, undefined) > 0),
    [true, true, false],
  )
})

test('rate-limit headers show the remaining units, the time until all units return, and the wait after a refusal', () => {
  let nowMs = 5_000
  const { limit } = makeLimiter(LIMITS, makeSharedTable(10, 's'), () => nowMs)
  const write = { ...ARRIVAL, cost: 'write' } as const
  assert.deepEqual(limit(write, undefined), {
    allowed: true,
    headers: { 'ratelimit-limit': '500', 'ratelimit-remaining': '495', 'ratelimit-reset': '1' },
  })
  const registration = { ...ARRIVAL, cost: 'registration' } as const
  for (let round = 0; round < 4; round++) assert.ok(limit(registration, undefined).allowed)
  assert.deepEqual(limit(registration, undefined), {
    allowed: false,
    headers: {
      'ratelimit-limit': '500',
      'ratelimit-remaining': '95',
      'ratelimit-reset': '5',
      'retry-after': '1',
    },
  })
  for (let round = 0; round < 19; round++) assert.ok(limit(write, undefined).allowed)
  assert.deepEqual(limit(ARRIVAL, undefined).headers['ratelimit-remaining'], '0')
  assert.equal(limit(registration, undefined).headers['retry-after'], '1')
  nowMs += 10
  assert.ok(limit(ARRIVAL, undefined).allowed)
  nowMs += 5_000
  assert.equal(limit(ARRIVAL, undefined).headers['ratelimit-remaining'], '499')
})

test('API keys and IP addresses have separate buckets, and all addresses of an IPv6 /64 share one', () => {
  const { limit, limitMore } = makeLimiter(LIMITS, makeSharedTable(100, 's'), () => 1)
  const left = (ip: string, principal?: Principal) =>
    Number(limit({ ...ARRIVAL, ip }, principal).headers['ratelimit-remaining'])
  assert.deepEqual([left('192.0.2.1'), left('192.0.2.1'), left('192.0.2.2')], [499, 498, 499])
  assert.deepEqual([left('192.0.2.1', KEY), left('192.0.2.9', KEY)], [199, 198])
  assert.deepEqual([left('2001:db8:1:2::1'), left('2001:db8:1:2:ffff::9')], [499, 498])
  assert.equal(left('2001:db8:1:3::1'), 499)
  const write = { ...ARRIVAL, ip: '192.0.2.7', cost: 'write' } as const
  assert.equal(limitMore(write, KEY, 10).headers['ratelimit-remaining'], '148')
  assert.equal(left('192.0.2.7'), 449)
  assert.equal(limitMore(write, KEY, 99).headers['ratelimit-limit'], '500')
})

test('a client that has used up its units stays limited after requests from a thousand new IP addresses', () => {
  const nowMs = 1
  const { limit, limitMore } = makeLimiter(LIMITS, makeSharedTable(1, 's'), () => nowMs)
  assert.ok(limitMore(ARRIVAL, undefined, 500).allowed)
  for (let address = 0; address < 1_000; address++) {
    assert.ok(limit({ ...ARRIVAL, ip: `10.0.${address >> 8}.${address & 255}` }, undefined).allowed)
  }
  assert.equal(limit(ARRIVAL, undefined).allowed, false)
})

const RANGES: readonly [ip: string, range: string][] = [
  ['192.0.2.1', '192.0.2.1'],
  ['2001:0db8:0001:0002:0003:0004:0005:0006', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['2001:db8::5', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['0000:0000:0000:0000:0000:0000:0000:0001', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['1::', '1:0:0:0::/64'],
]

test('all /64 networks of one IPv6 /48 share a limit that is a multiple of one /64’s limit', () => {
  const { limit, limitConnection } = makeLimiter(
    { ...LIMITS, ipBurst: 10, siteTimes: 2, connectionCost: 1 },
    makeSharedTable(1_000, 's'),
    () => 1,
  )
  const drawn = (ip: string, draw = () => limit({ ...ARRIVAL, ip }, undefined).allowed) => {
    let count = 0
    while (draw()) count++
    return count
  }
  const opened = (ip: string) => drawn(ip, () => limitConnection(ip).allowed)
  assert.equal(drawn('2001:db8:1:1::1'), 10)
  assert.equal(drawn('2001:db8:1:2::1'), 10)
  assert.equal(drawn('2001:db8:1:3::1'), 0)
  const connections = ['1:1', '1:2', '1:3', '2:1'].map((at) => opened(`2001:db8:${at}::1`))
  assert.deepEqual(connections, [10, 10, 0, 10], 'connections have buckets of their own')
  assert.equal(drawn('2001:db8:2:1::1'), 10, 'another /48')
  assert.equal(drawn('192.0.2.1'), 10)
})

test('each IPv4 address and each IPv6 /64 counts as one client of the rate limits', () => {
  for (const [ip, range] of RANGES) assert.equal(limitedRange(ip), range, ip)
  assert.equal(siteOf('2001:db8:1:2::/64'), '2001:db8:1::/48')
  assert.equal(siteOf('0:0:0:0::/64'), '0:0:0::/48')
  assert.equal(siteOf('192.0.2.1'), undefined)
  const mapped = Buffer.from('0000:0000:0000:0000:0000:ffff:c000:0201')
  assert.equal(ipText(new Uint8Array(mapped).buffer), '192.0.2.1')
})

const PROXIES = ['10.0.0.0/8', '192.0.2.10', 'fd00::/8']
const FORWARDED: readonly [what: string, peer: string, header: string, client: string][] = [
  ['without a proxy the header is ignored', '198.51.100.1', '203.0.113.5', '198.51.100.1'],
  ['one proxy', '10.0.0.1', '203.0.113.5', '203.0.113.5'],
  ['entries that the client wrote are ignored', '10.0.0.1', '1.1.1.1, 203.0.113.5', '203.0.113.5'],
  ['two proxies', '10.0.0.1', '203.0.113.5, 192.0.2.10', '203.0.113.5'],
  ['a proxy without the header', '10.0.0.1', '', '10.0.0.1'],
  ['an entry that is not an IP address', '10.0.0.1', '203.0.113.5, unknown', '10.0.0.1'],
  [
    'an entry that is not an IP address behind two proxies',
    '10.0.0.1',
    'unknown, 192.0.2.10',
    '192.0.2.10',
  ],
  ['a header that lists only proxies', '10.0.0.1', '10.1.1.1, 10.2.2.2', '10.1.1.1'],
  ['an IPv6 address', 'fd00::1', '2001:db8::7', '2001:db8::7'],
  ['an IPv4 address in IPv6 notation', '10.0.0.1', '::ffff:203.0.113.5', '203.0.113.5'],
]

for (const [what, peer, header, client] of FORWARDED) {
  test(`behind proxies, the server determines the client’s IP address from the forwarding header: ${what}`, () => {
    assert.equal(
      makeClientIp(PROXIES)(peer, () => header),
      client,
    )
  })
}

function startLimitedFront(
  t: TestContext,
  settings: Partial<FrontSettings> = {},
  limits: Partial<LimitSettings> = {},
  made: () => void = () => undefined,
) {
  const limiter = makeLimiter(
    { ...LIMITS, ipPerSecond: 1, ipBurst: 20, ...limits },
    makeSharedTable(1_000, 's'),
  )
  return startTestFront(t, settings, {
    services: { readiness: () => ({}), ...limiter },
    routes: [
      route({
        method: 'GET',
        path: '/dear',
        auth: 'public',
        cost: 'read',
        weight: 3,
        weigh: ({ before }) => (before === undefined ? 1 : 5),
        cacheControl: 'public, max-age=1',
        summary: 'Is dear, and the more so the further back',
        query: Type.Object({ before: Type.Optional(Type.String()) }, closed),
        responses: { 200: Type.Object({}) },
        handle: () => ok({}),
      }),
      route({
        method: 'GET',
        path: '/long',
        auth: 'public',
        cost: 'read',
        summary: 'Makes an answer that costs ten reads',
        revalidates: true,
        responses: { 200: Type.Object({}) },
        async handle() {
          made()
          return { status: 200, raw: JSON.stringify({ text: 'x'.repeat(10 * 16_384 - 100) }) }
        },
      }),
      route({
        method: 'POST',
        path: '/many',
        auth: 'public',
        cost: 'write',
        summary: 'Takes several at once',
        bodyBytesMax: 65_536,
        body: Type.Object({ items: Type.Array(Type.Integer()) }, closed),
        times: ({ items }) => items.length,
        responses: { 200: Type.Object({ count: Type.Integer() }) },
        handle: ({ body }) => ok({ count: body.items.length }),
      }),
    ],
  })
}

const remaining = (response: Response) => Number(response.headers.get('ratelimit-remaining'))

test('a client that sends too many requests gets 429 with the time to wait, but its health checks still work', async (t) => {
  const { url } = await startLimitedFront(t)
  for (let left = 19; left >= 0; left--) {
    assert.ok(remaining(await fetch(`${url}/who`)) >= left, `${left} left`)
  }
  const refused = await eventually(async () => {
    const response = await fetch(`${url}/who`)
    assert.equal(response.status, 429)
    return response
  })
  assert.deepEqual(await refused.json(), {
    error: 'too many requests: wait for the seconds in Retry-After',
    code: 'RATE_LIMITED',
  })
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  assert.equal(refused.headers.get('ratelimit-limit'), '20')
  assert.equal(remaining(refused), 0)
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  assert.equal((await fetch(`${url}/readyz`)).status, 200)
})

const PAID: readonly [what: string, method: string, path: string, status: number][] = [
  ['a request for an unknown path', 'GET', '/nothing/here', 404],
  ['a request with a method that the path does not support', 'PATCH', '/who', 405],
  ['a CORS preflight request', 'OPTIONS', '/orders', 204],
  ['a request with an invalid parameter', 'GET', '/echo/rubbish', 400],
  ['a health check', 'GET', '/healthz', 200],
  ['a readiness check with the method HEAD', 'HEAD', '/readyz', 200],
]

for (const [what, method, path, status] of PAID) {
  test(`${what} costs the client one rate-limit unit, like a simple read`, async (t) => {
    // The refill is one unit in a quarter of an hour, so that none is added even on a slow machine.
    const { url } = await startLimitedFront(t, {}, { ipBurst: 5, ipPerSecond: 0.001 })
    for (let left = 4; left >= 0; left--) {
      const paid = await fetch(`${url}${path}`, { method })
      assert.deepEqual([paid.status, remaining(paid)], [status, left])
    }
    assert.equal((await fetch(`${url}${path}`, { method })).status, 429)
  })
}

test('a read costs the rate-limit units of its route, and more units if it requests earlier data', async (t) => {
  const { url } = await startLimitedFront(t, {}, { ipBurst: 100 })
  const left = async (path: string) => {
    const response = await fetch(`${url}${path}`)
    return [response.status, remaining(response)]
  }
  assert.deepEqual(await left('/dear'), [200, 97])
  assert.deepEqual(await left('/dear?before=x'), [200, 82])
  assert.deepEqual(await left('/metrics'), [200, 72])
  for (let page = 0; page < 4; page++) await left('/dear?before=x')
  assert.deepEqual(await left('/dear?before=x'), [429, 9], 'it pays for the first of them only')
})

test('shared caches may store a public answer, but no refusal caused by a rate limit', async (t) => {
  const { url } = await startLimitedFront(t, {}, { ipBurst: 4, ipPerSecond: 0.001 })
  const ask = async (path: string) => {
    const { status, headers } = await fetch(`${url}${path}`)
    return [status, headers.get('cache-control')]
  }
  assert.deepEqual(await ask('/dear'), [200, 'public, max-age=1'])
  assert.deepEqual(await ask('/who'), [200, 'no-store'])
  assert.deepEqual(await ask('/dear'), [429, 'no-store'])
  assert.deepEqual(await ask('/dear?unknown=1'), [429, 'no-store'])
})

test('a file costs the client rate-limit units by its length, and a 304 answer costs one unit', async (t) => {
  const { url } = await startLimitedFront(t, {}, { ipBurst: 200, ipPerSecond: 0.001 })
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${url}${path}`, {
      headers: { 'accept-encoding': 'identity', ...headers },
    })
    const bytes = (await response.arrayBuffer()).byteLength
    const etag = response.headers.get('etag') ?? ''
    return { status: response.status, left: remaining(response), bytes, etag }
  }
  const css = await ask('/docs/swagger-ui.css')
  assert.deepEqual([css.status, css.left], [200, 200 - Math.ceil(css.bytes / 16_384)])
  const known = await ask('/docs/swagger-ui.css', { 'if-none-match': css.etag })
  assert.deepEqual([known.status, known.bytes, known.left], [304, 0, css.left - 1])
  const script = await ask('/docs/swagger-ui-bundle.js')
  assert.deepEqual(
    [script.status, script.left],
    [200, known.left - Math.ceil(script.bytes / 16_384)],
  )
  const last = await ask('/docs/swagger-ui-bundle.js')
  assert.deepEqual([last.status, last.left], [200, 0], 'the client owes the rest')
  const refused = await ask('/docs/swagger-ui-bundle.js')
  assert.equal(refused.status, 429)
  assert.ok(refused.bytes < 200, 'no byte of the file is sent')
})

for (const [what, method, headers, status] of [
  ['a HEAD request', 'HEAD', {}, 200],
  ['a 304 answer', 'GET', { 'if-none-match': '*' }, 304],
] as const) {
  test(`${what} costs as many rate-limit units as a full answer, because the server generates the full answer anyway`, async (t) => {
    const { url } = await startLimitedFront(t, {}, { ipBurst: 100, ipPerSecond: 0.001 })
    const answer = await fetch(`${url}/long`, { method, headers })
    assert.deepEqual([answer.status, remaining(answer)], [status, 90])
  })
}

test('a client that has used up its rate-limit units cannot make the server generate more long answers', async (t) => {
  let made = 0
  const limits = { ipBurst: 100, ipPerSecond: 0.001 }
  const { url } = await startLimitedFront(t, {}, limits, () => made++)
  assert.equal(remaining(await fetch(`${url}/dear`)), 97)
  for (let times = 0; times < 50; times++) await fetch(`${url}/long`)
  assert.equal(made, 10)
})

test('an answer that exceeds the client’s remaining rate-limit units is charged in full, up to a maximum debt', () => {
  let nowMs = 5_000
  const draws = makeDraws(2)
  const limiter = makeLimiter(LIMITS, makeSharedTable(10, 's'), () => nowMs, draws.note)
  const { ipBurst: burst, ipPerSecond: perSecond } = LIMITS
  const made = (units: number) => limiter.limitMore(ARRIVAL, undefined, units, true)
  const reads = () => limiter.limit(ARRIVAL, undefined).allowed
  assert.ok(made(burst - 10).allowed)
  assert.ok(made(110).allowed, 'the last units pay for one more answer')
  const refused = made(perSecond)
  assert.deepEqual([refused.allowed, refused.headers['retry-after']], [false, '3'])
  assert.equal(refused.headers['ratelimit-remaining'], '0')
  const spent = draws.take().find(([name]) => name === `ip ${ARRIVAL.ip}`)
  assert.equal(spent?.[1], ((burst + 100 + perSecond) * 1_000) / perSecond, 'other machines know')
  nowMs += 2_000
  assert.equal(reads(), false)
  nowMs += 1_000 / perSecond
  assert.equal(reads(), true)
  for (let times = 0; times < 100; times++) made(burst)
  nowMs += 60_000
  assert.equal(reads(), false)
  nowMs += 1_000 / perSecond
  assert.equal(reads(), true, 'the debt is limited')
})

test('a batch costs rate-limit units per item, and is refused completely if the client has too few units', async (t) => {
  const { url } = await startLimitedFront(t, {}, { ipBurst: 100 })
  const send = (count: number) =>
    postText(`${url}/many`, JSON.stringify({ items: Array.from({ length: count }, () => 1) }))
  const four = await send(4)
  assert.deepEqual([four.status, remaining(four)], [200, 80])
  const none = await send(0)
  assert.deepEqual([none.status, remaining(none)], [200, 75])
  const refused = await send(16)
  assert.deepEqual([refused.status, remaining(refused)], [429, 70])
  assert.ok(Number(refused.headers.get('retry-after')) >= 4)
  assert.equal((await send(14)).status, 200)
})

test('a body is charged by length before parsing, and this charge counts towards the cost of its items', async (t) => {
  const { url } = await startLimitedFront(t, {}, { ipBurst: 100, ipPerSecond: 0.001 })
  const send = (text: string) => postText(`${url}/many`, text)
  const rubbish = await send('['.padEnd(20_000, ' '))
  assert.deepEqual([rubbish.status, remaining(rubbish)], [400, 75], 'five times the cost')
  const paid = await send('{"items":[1,2,3,4,5,6]}'.padEnd(20_000, ' '))
  assert.deepEqual([paid.status, remaining(paid)], [200, 45], 'six items, five of them paid for')
  for (const left of [25, 5]) {
    const refused = await send('['.padEnd(16_384, ' '))
    assert.deepEqual([refused.status, remaining(refused)], [400, left])
  }
  const refused = await send('['.padEnd(16_384, ' '))
  assert.deepEqual([refused.status, remaining(refused)], [429, 0], 'nothing of it is parsed')
})

test('behind a trusted proxy, each client IP address in the forwarding headers has its own limit', async (t) => {
  const { front } = await startLimitedFront(t, { trustedProxies: ['127.0.0.1'] })
  const send = async (...lines: string[]) => {
    const head = lines.map((line) => `x-forwarded-for: ${line}\r\n`).join('')
    const [response] = await sendRaw(front.port, `GET /who HTTP/1.1\r\nhost: a\r\n${head}\r\n`)
    const { ip } = JSON.parse(response?.body ?? '{}') as { ip: string }
    return [ip, Number(response?.headers.get('ratelimit-remaining'))]
  }
  assert.deepEqual(await send('203.0.113.1'), ['203.0.113.1', 19])
  assert.deepEqual(await send('203.0.113.2'), ['203.0.113.2', 19])
  assert.deepEqual(await send('203.0.113.3', '203.0.113.1'), ['203.0.113.1', 18])
})

test('connections above the limit get a 503 and are closed, until another connection ends and makes room', async (t) => {
  const { front } = await startTestFront(t, { connectionsMax: 2 })
  const sockets: Socket[] = [await openRaw(front.port), await openRaw(front.port)]
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  const refused = await openRaw(front.port)
  const [response] = await readResponses(refused, 1)
  assert.equal(response?.status, 503)
  assert.equal(response.headers.get('retry-after'), '5')
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff')
  assert.equal((JSON.parse(response.body) as { code: string }).code, 'OVERLOADED')
  await new Promise((resolve) => (refused.closed ? resolve(0) : refused.once('close', resolve)))
  sockets.pop()?.destroy()
  await eventually(async () => {
    const [late] = await sendRaw(front.port, 'GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n')
    assert.equal(late?.status, 200)
  })
})

test('a WebSocket counts as a connection until it is closed', async (t) => {
  const socket = upgradeRoute({
    kind: 'upgrade',
    method: 'GET',
    path: '/socket',
    auth: 'public',
    cost: 'read',
    summary: 'A socket',
    accept: () => ({}),
    socket: {},
  })
  const { front } = await startTestFront(t, { connectionsMax: 1 }, { routes: [socket] })
  for (let round = 0; round < 5; round++) {
    await eventually(async () => {
      const client = new WebSocket(`ws://127.0.0.1:${front.port}/socket`)
      await new Promise((resolve, reject) => {
        client.onopen = resolve
        client.onerror = () => reject(new Error(`round ${round} was turned away`))
      })
      const [refused] = await readResponses(await openRaw(front.port), 1)
      client.close()
      assert.equal(refused?.status, 503)
    })
  }
})

test('opening a connection costs units even if the client sends no request', async (t) => {
  const { front } = await startLimitedFront(t, {}, { connectionCost: 10, ipPerSecond: 1 })
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (let round = 0; round < 2; round++) sockets.push(await openRaw(front.port))
  // A refused client that reads before it writes gets the reason. The connection of a client that writes at once may be
  // reset.
  const refused = await openRaw(front.port)
  const [response] = await readResponses(refused, 1)
  assert.equal(response?.status, 429)
  assert.ok(Number(response.headers.get('retry-after')) >= 1)
  assert.equal((JSON.parse(response.body) as { code: string }).code, 'RATE_LIMITED')
})

test('the kernel reports how many connections each IP address has', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const { front } = await startTestFront(t)
  const sockets = await Promise.all(Array.from({ length: 5 }, () => openRaw(front.port)))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  await eventually(async () => {
    assert.deepEqual([...((await countPeers(front.port)) ?? [])], [['127.0.0.1', 5]])
  })
})

test('an IP address with too many connections can open no more until some are closed', async () => {
  let counted = new Map([['192.0.2.1', 10]])
  let counts = 0
  let nowMs = 0
  const gate = makeConnectionGate({
    settings: { connectionsMax: 100, connectionsPerIpMax: 9 },
    isTrusted: (ip) => ip === '10.0.0.1',
    count: async () => {
      counts++
      return counted
    },
    nowMs: () => nowMs,
  })
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  assert.equal(gate.opened('192.0.2.1'), undefined)
  await turn()
  assert.equal(gate.opened('192.0.2.1')?.rejection.rejected, 'RATE_LIMITED')
  assert.equal(gate.opened('192.0.2.2'), undefined)
  assert.equal(gate.opened('10.0.0.1'), undefined)
  assert.equal(counts, 1)
  counted = new Map([['192.0.2.1', 9]])
  nowMs = 3_000
  gate.opened('192.0.2.3')
  await turn()
  assert.deepEqual([gate.opened('192.0.2.1'), counts], [undefined, 2])
  assert.equal(gate.open(), 6)
  counted = new Map([['192.0.2.1', 10]])
  nowMs = 6_000
  gate.opened('192.0.2.3')
  await turn()
  assert.equal(gate.opened('192.0.2.1')?.rejection.rejected, 'RATE_LIMITED')
  nowMs = 60_000
  assert.equal(gate.opened('192.0.2.1'), undefined, 'the counts are a minute old')
  await turn()
  assert.equal(gate.opened('192.0.2.1')?.rejection.rejected, 'RATE_LIMITED')
  for (let count = 0; count < 4; count++) gate.closed()
  gate.closed()
  assert.equal(gate.open(), 5)
})
