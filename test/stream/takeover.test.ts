import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import Type from 'typebox'
import { reject } from '#domain/rejection.ts'
import { sseRoute, type Takeover, upgradeRoute } from '#http/route.ts'
import { oneOf, safeInteger } from '#http/schemas.ts'
import { closed, openRaw, readResponses, startTestFront } from '../http/front-fixture.ts'

test('a request for a server-sent event stream passes all checks before its route writes the response', async (t) => {
  const opened: Takeover[] = []
  const gone = Promise.withResolvers<void>()
  const { url, front } = await startTestFront(
    t,
    {},
    {
      routes: [
        sseRoute({
          kind: 'sse',
          method: 'GET',
          path: '/prices/{asset}',
          auth: 'public',
          cost: 'read',
          summary: 'Prices',
          params: Type.Object({ asset: oneOf(['BTC', 'ETH']) }, closed),
          event: Type.Object({ asset: Type.String() }),
          open({ path }, takeover) {
            opened.push(takeover)
            takeover.onAborted(gone.resolve)
            takeover.writeHead('text/event-stream')
            takeover.res.write(`data: {"asset":"${path.asset}"}\n\n`)
          },
        }),
      ],
    },
  )
  assert.equal((await fetch(`${url}/prices/DOGE`)).status, 400)
  const client = new AbortController()
  const response = await fetch(`${url}/prices/BTC`, { signal: client.signal })
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  assert.equal(response.headers.get('access-control-allow-origin'), '*')
  assert.ok(response.headers.get('x-request-id'))
  const reader = response.body?.getReader()
  const first = await reader?.read()
  assert.equal(Buffer.from(first?.value ?? []).toString(), 'data: {"asset":"BTC"}\n\n')
  assert.equal(front.inFlight(), 0)
  opened[0]?.res.cork(() => opened[0]?.res.write('data: {}\n\n'))
  const second = await reader?.read()
  assert.equal(Buffer.from(second?.value ?? []).toString(), 'data: {}\n\n')
  client.abort()
  await gone.promise
})

test('a server-sent event stream that fails to open is closed without affecting other streams', async (t) => {
  const { url, lines } = await startTestFront(
    t,
    {},
    {
      routes: [
        sseRoute({
          kind: 'sse',
          method: 'GET',
          path: '/broken',
          auth: 'public',
          cost: 'read',
          summary: 'Broken',
          event: Type.Object({}),
          open() {
            throw new Error('no stream today')
          },
        }),
      ],
    },
  )
  await assert.rejects(fetch(`${url}/broken`))
  assert.equal(lines.length, 1)
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
})

test('a WebSocket handshake is validated like a request to any other route', async (t) => {
  const { front, url } = await startTestFront(
    t,
    {},
    {
      routes: [
        upgradeRoute({
          kind: 'upgrade',
          method: 'GET',
          path: '/stream',
          auth: 'public',
          cost: 'read',
          summary: 'Stream',
          query: Type.Object({ v: Type.Optional(safeInteger({ min: 1, max: 2 })) }, closed),
          async accept({ query, requestId }) {
            await null
            return query.v === 2 ? reject('OVERLOADED') : { session: requestId }
          },
          socket: {
            open(ws) {
              ws.subscribe('news')
              ws.send(ws.getUserData().session)
            },
            message(ws, message) {
              ws.send(message)
            },
          },
        }),
      ],
    },
  )
  const socket = new WebSocket(`${url.replace('http', 'ws')}/stream?v=1`)
  const [hello] = (await once(socket, 'message')) as [MessageEvent]
  assert.match(String(hello.data), /^[0-9a-f]{12}-/)
  assert.ok(front.publish('news', 'extra'))
  const [news] = (await once(socket, 'message')) as [MessageEvent]
  assert.equal(news.data, 'extra')
  assert.equal(front.inFlight(), 0)
  const ended = once(socket, 'close')
  socket.close()
  await ended

  const handshake = (path: string) =>
    `GET ${path} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
  for (const [path, status] of [
    ['/stream?v=3', 400],
    ['/stream?w=1', 400],
    ['/stream?v=2', 503],
  ] as const) {
    const raw = await openRaw(front.port)
    const responses = readResponses(raw, 1)
    raw.write(handshake(path))
    assert.equal((await responses)[0]?.status, status, path)
    raw.destroy()
  }
  const plain = await fetch(`${url}/stream`)
  assert.equal(plain.status, 400)
  assert.match(await plain.text(), /accepts only WebSockets/)
  assert.equal((await fetch(`${url}/stream`, { method: 'POST' })).status, 405)
})

test('a client that disconnects during its WebSocket handshake affects no other client', async (t) => {
  const decided = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const { front, url } = await startTestFront(
    t,
    {},
    {
      routes: [
        upgradeRoute({
          kind: 'upgrade',
          method: 'GET',
          path: '/stream',
          auth: 'public',
          cost: 'read',
          summary: 'Stream',
          async accept() {
            asked.resolve()
            await decided.promise
            return {}
          },
          socket: {},
        }),
      ],
    },
  )
  const raw = await openRaw(front.port)
  raw.write(
    'GET /stream HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  await asked.promise
  raw.resetAndDestroy()
  while (front.inFlight() > 0) await fetch(`${url}/healthz`)
  decided.resolve()
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
})
