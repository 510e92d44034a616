import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import Type from 'typebox'
import { UNREAD_BYTES_PER_ADDRESS_MAX } from '#domain/limits.ts'
import { makeRangeCounts } from '#http/range-counts.ts'
import { route } from '#http/route.ts'
import type { FrontSettings } from '#http/server.ts'
import { eventually } from '../support/eventually.ts'
import { LARGE, openRaw, readResponses, startTestFront } from './front-fixture.ts'

test('resources in use are counted separately for each IP address, IPv6 /64 and IPv6 /48', () => {
  const counts = makeRangeCounts({ perRangeMax: 2, siteTimes: 2 })
  const isFull = (...ips: string[]) => ips.map((ip) => counts.isFull(ip))
  counts.add('192.0.2.1', 2)
  counts.add('', 9)
  assert.deepEqual(isFull('192.0.2.1', '192.0.2.2', ''), [true, false, false])
  counts.add('192.0.2.1', -1)
  assert.deepEqual(isFull('192.0.2.1'), [false])
  counts.add('2001:db8::1', 1)
  counts.add('2001:db8::2', 1)
  assert.deepEqual(isFull('2001:db8::3', '2001:db8:0:1::1'), [true, false])
  for (const ip of ['2001:db8:0:1::1', '2001:db8:0:2::1']) counts.add(ip, 1)
  assert.deepEqual(isFull('2001:db8:0:3::1', '2001:db8:1::1'), [true, false])
})

/** Starts a front that trusts this process as its proxy. The header `x-forwarded-for` names the client. */
async function startBehindProxy(t: TestContext, settings: Partial<FrontSettings>) {
  let charged = 0
  const services = {
    readiness: () => ({}),
    limit() {
      charged++
      return { allowed: true, headers: {} }
    },
  }
  const trusted = { trustedProxies: ['127.0.0.1'], ...settings }
  const { front, url, finishSlow } = await startTestFront(t, trusted, { services })
  const send = async (ip: string, path: string, method = 'GET'): Promise<Socket> => {
    const socket = await openRaw(front.port)
    t.after(() => socket.destroy())
    const body = method === 'POST' ? 'content-type: application/json\r\ncontent-length: 9\r\n' : ''
    socket.write(`${method} ${path} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: ${ip}\r\n${body}\r\n`)
    return socket
  }
  const ask = async (ip: string, path: string) => {
    const [response] = await readResponses(await send(ip, path), 1)
    return response
  }
  /** Returns the length of a long answer. */
  const download = async (ip: string): Promise<number> => {
    const answer = await fetch(`${url}/large`, { headers: { 'x-forwarded-for': ip } })
    return (await answer.arrayBuffer()).byteLength
  }
  return { front, send, ask, download, finishSlow, charged: () => charged }
}

test('behind a proxy, one client’s slow requests cannot use up all places for requests in flight', async (t) => {
  const { front, send, ask, finishSlow, charged } = await startBehindProxy(t, {
    ...{ requestsInFlightMax: 8, connectionsPerIpMax: 4, siteTimes: 2 },
  })
  for (let count = 0; count < 2; count++) await send('203.0.113.1', '/slow')
  for (let count = 0; count < 2; count++) await send('203.0.113.1', '/maybe', 'POST')
  await eventually(() => assert.equal(front.inFlight(), 4))
  const before = charged()
  const refused = await ask('203.0.113.1', '/who')
  assert.equal(refused?.status, 429)
  assert.match(refused?.body ?? '', /too many requests of this IP address are in progress/)
  assert.equal(charged(), before + 1, 'a refused request is charged, too')
  assert.equal((await ask('203.0.113.1', '/healthz'))?.status, 200)
  assert.equal((await ask('203.0.113.2', '/who'))?.status, 200)
  finishSlow()
  await eventually(() => assert.equal(front.inFlight(), 2))
  assert.equal((await ask('203.0.113.1', '/who'))?.status, 200)
})

test('a client that leaves long answers unread gets no more long answers, while other clients still do', async (t) => {
  const { front, send, ask, download } = await startBehindProxy(t, {})
  const unread: Socket[] = []
  const most = Math.ceil(UNREAD_BYTES_PER_ADDRESS_MAX / LARGE.length)
  for (let count = 0; count < most; count++) {
    const socket = await send('203.0.113.1', '/large')
    socket.pause()
    unread.push(socket)
  }
  await eventually(() => assert.equal(front.inFlight(), most))
  const refused = await ask('203.0.113.1', '/large')
  assert.equal(refused?.status, 429)
  assert.match(refused?.body ?? '', /has not read its earlier answers/)
  assert.equal((await ask('203.0.113.1', '/who'))?.status, 200, 'short answers are sent')
  assert.equal(await download('203.0.113.2'), LARGE.length)
  for (const socket of unread) socket.destroy()
  await eventually(() => assert.equal(front.inFlight(), 0))
  assert.equal(await download('203.0.113.1'), LARGE.length)
})

for (const [what, request, times] of [
  ['short answers', 'GET /page', 2_000],
  ['the answers of a health check', 'GET /healthz', 200_000],
] as const) {
  test(`the server disconnects a client that keeps sending requests without reading ${what}`, async (t) => {
    const page = route({
      method: 'GET',
      path: '/page',
      auth: 'public',
      cost: 'read',
      summary: 'Answers less than a long answer',
      responses: { 200: Type.Object({}) },
      handle: () => ({ status: 200, raw: 'x'.repeat(60_000) }),
    })
    const { front } = await startTestFront(t, {}, { routes: [page] })
    const socket = await openRaw(front.port)
    t.after(() => socket.destroy())
    socket.pause()
    let isClosed = false
    socket.once('error', () => {
      isClosed = true
    })
    const some = Buffer.from(`${request} HTTP/1.1\r\nhost: a\r\n\r\n`.repeat(10))
    for (let sent = 0; sent < times && !isClosed; sent += 10) {
      socket.write(some)
      await new Promise(setImmediate)
    }
    assert.ok(isClosed)
    await eventually(() => assert.equal(front.inFlight(), 0))
  })
}

test('a client that sends many requests at once and reads slowly gets all answers', async (t) => {
  const { front } = await startTestFront(t)
  const socket = await openRaw(front.port)
  t.after(() => socket.destroy())
  const responses = readResponses(socket, 1_000)
  for (let sent = 0; sent < 1_000; sent++) socket.write('GET /sums HTTP/1.1\r\nhost: a\r\n\r\n')
  assert.equal((await responses).filter(({ status }) => status === 200).length, 1_000)
})
