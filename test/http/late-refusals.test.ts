import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import { REFUSED_LATE_MS } from '#http/late-refusals.ts'
import { type LimitSettings, makeLimiter } from '#http/limits.ts'
import type { Principal } from '#http/route.ts'
import type { FrontSettings } from '#http/server.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { eventually } from '../support/eventually.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import { openRaw, readResponses, sendRaw, startTestFront } from './front-fixture.ts'
import { ARRIVAL, LIMITS } from './limit-fixture.ts'

const KEY: Principal = { keyId: 'k', address: `0x${'11'.repeat(20)}` as Address }
/** Number of refusals that one address gets without delay. */
const PROMPT = 100
const WHO = 'GET /who HTTP/1.1\r\nhost: a\r\n\r\n'

test('after 100 refusals, further refusals to the same IP address are delayed, but refusals to other clients are not', () => {
  let nowMs = 1
  const settings = { ...LIMITS, ipBurst: 1, ipPerSecond: 0.001, keyBurst: 1, keyPerSecond: 0.001 }
  const { limit } = makeLimiter(settings, makeSharedTable(100, 's'), () => nowMs)
  const draw = (ip = ARRIVAL.ip) => limit({ ...ARRIVAL, ip }, undefined)
  assert.equal(draw().allowed, true)
  const verdicts = Array.from({ length: PROMPT + 2 }, () => draw())
  assert.ok(verdicts.every(({ allowed }) => !allowed))
  assert.equal(
    verdicts.findIndex(({ insists }) => insists),
    PROMPT,
  )
  assert.equal(draw('192.0.2.2').allowed, true)
  assert.equal(draw('192.0.2.2').insists, undefined)
  assert.equal(limit(ARRIVAL, KEY).allowed, true)
  for (let count = 0; count < 2 * PROMPT; count++) {
    assert.equal(limit(ARRIVAL, KEY).insists, undefined)
  }
  nowMs += 1_000
  const later = Array.from({ length: 11 }, () => draw().insists === true)
  assert.deepEqual(later, [...Array(10).fill(false), true], 'ten more within a second')
})

async function startFlooded(t: TestContext, settings: Partial<FrontSettings> = {}) {
  const clock = simulatedClock(1_000_000)
  const limits: LimitSettings = { ...LIMITS, ipBurst: 1, ipPerSecond: 0.001 }
  const limiter = makeLimiter(limits, makeSharedTable(100, 's'), () => 1)
  const services = { readiness: () => ({}), ...limiter }
  const { front, url } = await startTestFront(t, settings, { services, clock })
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  /** Sends a request on a connection of its own. */
  const ask = async (head = '') => {
    const socket = await openRaw(front.port)
    sockets.push(socket)
    const answered = readResponses(socket, 1)
    socket.write(WHO.replace('\r\n\r\n', `\r\n${head}\r\n`))
    return { socket, answered: answered.then(([response]) => response) }
  }
  const waiting = async () => {
    const metrics = await front.registry.metrics()
    return Number(/^sibyl_http_requests_refused_late (\d+)$/m.exec(metrics)?.[1])
  }
  const insist = async (head = '') => {
    const lines = WHO.replace('\r\n\r\n', `\r\n${head}\r\n`)
    for (let count = 0; count <= PROMPT; count++) {
      const [response] = await sendRaw(front.port, lines)
      assert.equal(response?.status, count === 0 ? 200 : 429)
    }
  }
  return { front, url, clock, ask, waiting, insist }
}

test('delayed refusals to a flooding IP address do not count as requests in flight', async (t) => {
  const { front, url, clock, ask, waiting, insist } = await startFlooded(t, {
    requestsInFlightMax: 1,
  })
  await insist()
  const late = await Promise.all([ask(), ask(), ask()])
  await eventually(async () => assert.equal(await waiting(), 3))
  clock.advance(REFUSED_LATE_MS - 1)
  assert.equal(await waiting(), 3)
  assert.equal(front.inFlight(), 0)
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  late[2]!.socket.destroy()
  await eventually(async () => assert.equal(await waiting(), 2))
  clock.advance(200)
  assert.equal(await waiting(), 0)
  for (const { answered } of late.slice(0, 2)) {
    const response = await answered
    assert.equal(response?.status, 429)
    assert.match(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    assert.equal((JSON.parse(response.body) as { code: string }).code, 'RATE_LIMITED')
  }
})

test('a front sends its delayed refusals before it closes', async (t) => {
  const { front, ask, waiting, insist } = await startFlooded(t)
  await insist()
  const { answered } = await ask()
  await eventually(async () => assert.equal(await waiting(), 1))
  const closing = front.close({ drainMs: 0 })
  assert.equal((await answered)?.status, 429)
  await closing
})

test('refusals behind a trusted proxy are never delayed, because the connection belongs to the proxy', async (t) => {
  const { ask, waiting, insist } = await startFlooded(t, { trustedProxies: ['127.0.0.1'] })
  const head = 'x-forwarded-for: 203.0.113.1\r\n'
  await insist(head)
  for (let count = 0; count < 5; count++) {
    assert.equal((await (await ask(head)).answered)?.status, 429)
  }
  assert.equal(await waiting(), 0)
})

test('after many refused connections, further connections of this IP address are closed without an answer', async (t) => {
  const limits = { ...LIMITS, ipBurst: 10, ipPerSecond: 0.001, connectionCost: 10 }
  const limiter = makeLimiter(limits, makeSharedTable(100, 's'), () => 1)
  const services = { readiness: () => ({}), ...limiter }
  const { front } = await startTestFront(t, {}, { services })
  const kept = await openRaw(front.port)
  t.after(() => kept.destroy())
  const statuses: (number | undefined)[] = []
  for (let count = 0; count < PROMPT + 3; count++) {
    const [response] = await readResponses(await openRaw(front.port), 1)
    statuses.push(response?.status)
  }
  assert.deepEqual(statuses, [
    ...Array<number>(PROMPT).fill(429),
    ...Array<undefined>(3).fill(undefined),
  ])
  const answered = readResponses(kept, 1)
  kept.write(WHO)
  assert.equal((await answered)[0]?.status, 200, 'its requests have units left')
})
