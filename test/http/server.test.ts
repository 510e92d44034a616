import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { AggregatorRegistry } from 'prom-client'
import Type from 'typebox'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import type { Arrival } from '#http/charges.ts'
import { claimPort } from '#http/port.ts'
import { ok, route } from '#http/route.ts'
import { type Front, startFront } from '#http/server.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import {
  LARGE,
  MARKET,
  openRaw,
  readResponses,
  sendRaw,
  startTestFront,
  TRADER,
} from './front-fixture.ts'

test('a handler receives path and query parameters converted to the types of their schemas', async (t) => {
  const { url } = await startTestFront(t)
  const response = await fetch(`${url}/echo/${MARKET}?limit=7&side=sell&quick=true&name=a%20b%2Bc+`)
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'application/json')
  assert.deepEqual(await response.json(), {
    marketId: MARKET.toLowerCase(),
    query: { limit: 7, side: 'sell', quick: true, name: 'a b+c ' },
  })
  const bare = await fetch(`${url}/echo/%30x${MARKET.slice(2)}?`)
  assert.deepEqual(await bare.json(), { marketId: MARKET.toLowerCase(), query: {} })
})

test('a handler receives the body converted to its schema’s types, whether it arrives whole or in pieces', async (t) => {
  const { url, front } = await startTestFront(t)
  const body = `{"order":{"nonce":18446744073709551615,"price":"500000","trader":"${TRADER}","side":1},"more":[1,"2"]}`
  const got = {
    order: {
      nonce: '18446744073709551615',
      price: 500_000,
      trader: TRADER.toLowerCase(),
      side: 1,
    },
    more: ['1', '2'],
  }
  const whole = await fetch(`${url}/orders`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json; charset=utf-8' },
  })
  assert.deepEqual(await whole.json(), { got })

  const socket = await openRaw(front.port)
  const responses = readResponses(socket, 2)
  const head = 'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
  const pieces = [
    `${head}content-length: ${body.length}\r\n\r\n`,
    body.slice(0, 20),
    body.slice(20, 21),
    body.slice(21),
    `${head}transfer-encoding: chunked\r\n\r\n`,
    `14\r\n${body.slice(0, 20)}\r\n`,
    `${(body.length - 20).toString(16)}\r\n${body.slice(20)}\r\n0\r\n\r\n`,
  ]
  for (const piece of pieces) await new Promise((written) => socket.write(piece, written))
  for (const { status, body: text } of await responses) {
    assert.equal(status, 200)
    assert.deepEqual(JSON.parse(text), { got })
  }
  socket.destroy()
})

test('a client can omit an optional body', async (t) => {
  const { url } = await startTestFront(t)
  assert.deepEqual(await (await fetch(`${url}/maybe`, { method: 'POST' })).json(), { body: null })
})

test('a valid request id is used and returned, and any other is replaced by a new one', async (t) => {
  const { url } = await startTestFront(t)
  const idFor = async (sent?: string) => {
    const headers = sent === undefined ? {} : { 'x-request-id': sent }
    return (await fetch(`${url}/healthz`, { headers })).headers.get('x-request-id')
  }
  assert.equal(await idFor('trace-1.a_B'), 'trace-1.a_B')
  const made = [await idFor(), await idFor('a b'), await idFor('x'.repeat(65))]
  assert.equal(new Set(made).size, 3)
  for (const id of made) assert.match(id ?? '', /^[0-9a-f]{12}-[0-9a-z]+$/)
})

test('every nth answer is logged with its route, status and duration, but without its query', async (t) => {
  const { url, lines } = await startTestFront(t, { logEvery: 2 })
  for (let count = 0; count < 4; count++) await fetch(`${url}/healthz?token=hunter2`)
  await fetch(`${url}/nowhere`)
  await fetch(`${url}/nowhere`)
  const told = lines.filter(({ message }) => message === 'a request was answered')
  assert.equal(told.length, 3)
  const [first, , last] = told.map(({ fields }) => fields as Record<string, unknown>)
  assert.deepEqual(
    { ...first, ms: 0, requestId: '' },
    {
      ...{ method: 'GET', route: '/healthz', status: 400, ms: 0, requestId: '', every: 2 },
    },
  )
  assert(typeof first?.ms === 'number' && first.ms >= 0)
  assert.equal(last?.status, 404)
  assert(!JSON.stringify(told).includes('hunter2'))
})

test('a HEAD request is answered like GET, without the body', async (t) => {
  const { front, url } = await startTestFront(t)
  const text = await (await fetch(`${url}/healthz`)).text()
  const [head] = await sendRaw(front.port, 'HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n', 1, 'head')
  assert.equal(head?.status, 200)
  assert.equal(head?.headers.get('content-length'), String(text.length))
  for (const path of ['/orders', '/nowhere', '/throws']) {
    const response = await fetch(`${url}${path}`, { method: 'HEAD' })
    assert.deepEqual([response.ok, await response.text()], [false, ''], path)
  }
})

test('no answer names the server or its version', async (t) => {
  const { url } = await startTestFront(t)
  for (const path of ['/healthz', '/nowhere', '/throws']) {
    const headers = [...(await fetch(`${url}${path}`)).headers.keys()]
    assert.ok(!headers.includes('uwebsockets') && !headers.includes('server'), path)
    assert.ok(headers.includes('x-content-type-options'), path)
  }
})

test('if the setting of allowed origins is *, any web page can read the answers', async (t) => {
  const { url } = await startTestFront(t)
  const headers = { origin: 'https://a.example', 'access-control-request-method': 'DELETE' }
  const preflight = await fetch(`${url}/orders/${MARKET}`, { method: 'OPTIONS', headers })
  assert.equal(preflight.status, 204)
  assert.equal(preflight.headers.get('access-control-allow-origin'), '*')
  assert.equal(preflight.headers.get('access-control-allow-methods'), 'DELETE, OPTIONS')
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /authorization/)
  const refused = await fetch(`${url}/nowhere`, { headers })
  assert.equal(refused.headers.get('access-control-allow-origin'), '*')
})

test('if origins are listed, only web pages of these origins can read the answers', async (t) => {
  const { url } = await startTestFront(t, { corsOrigins: ['https://a.example'] })
  for (const [origin, allowed] of [
    ['https://a.example', 'https://a.example'],
    ['https://b.example', null],
  ] as const) {
    for (const method of ['GET', 'OPTIONS']) {
      const response = await fetch(`${url}/healthz`, { method, headers: { origin } })
      assert.equal(response.headers.get('access-control-allow-origin'), allowed)
      assert.equal(response.headers.get('vary'), 'origin')
    }
  }
})

test('requests that arrive in one packet are answered in order', async (t) => {
  const { front } = await startTestFront(t)
  const paths = ['/healthz', '/nowhere', `/echo/${MARKET}?limit=1`, '/readyz', '/throws', '/sums']
  const text = paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join('')
  const statuses = (await sendRaw(front.port, text, paths.length)).map(({ status }) => status)
  assert.deepEqual(statuses, [200, 404, 200, 200, 500, 200])
})

test('a large answer arrives completely, even if the client reads it slowly', async (t) => {
  const { front, url } = await startTestFront(t)
  assert.equal((await (await fetch(`${url}/large`)).text()).length, LARGE.length)
  const socket = await openRaw(front.port)
  socket.write('GET /large HTTP/1.1\r\nhost: x\r\n\r\n')
  let bytes = 0
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // The front answers other requests while this answer is being read.
    if (bytes < 1024 * 1024) assert.equal((await fetch(`${url}/healthz`)).status, 200)
    if (bytes > LARGE.length) break
  }
  socket.destroy()
  assert.ok(bytes > LARGE.length)
})

test('an integer beyond 2^53 is sent as an integer', async (t) => {
  const { url } = await startTestFront(t)
  assert.equal(await (await fetch(`${url}/sums`)).text(), '{"total":18446744073709551615}')
})

test('a handler receives only the headers that it declares, and the client’s IP address', async (t) => {
  const { url } = await startTestFront(t)
  const response = await fetch(`${url}/who`, { headers: { 'user-agent': 'test', 'x-b': 'c' } })
  assert.deepEqual(await response.json(), { ip: '127.0.0.1', agent: 'test' })
})

test('/readyz answers 503 with the reason while a part of the exchange is not ready', async (t) => {
  const checks: Record<string, { ok: boolean; why?: string }> = { log: { ok: true } }
  const services = { readiness: () => checks }
  const { url } = await startTestFront(t, {}, { services, operation: 'alone' })
  assert.equal((await fetch(`${url}/readyz`)).status, 200)
  checks.store = { ok: false, why: 'migrating' }
  const response = await fetch(`${url}/readyz`)
  assert.equal(response.status, 503)
  assert.deepEqual(await response.json(), { status: 'not ready', checks })
})

test('/readyz on the public port reports whether the exchange is ready, without the reason', async (t) => {
  const checks: Record<string, { ok: boolean; why?: string }> = { log: { ok: true } }
  const services = { readiness: () => checks }
  const [open, closed] = [
    await startTestFront(t, {}, { services }),
    await startTestFront(t, {}, { services, isPrivate: true }),
  ]
  const told = async ({ url }: { url: string }) => (await fetch(`${url}/readyz`)).json()
  assert.deepEqual(await told(open), { status: 'ready', checks: {} })
  checks.store = { ok: false, why: 'migrating' }
  assert.deepEqual(await told(open), { status: 'not ready', checks: {} })
  assert.deepEqual(await told(closed), { status: 'not ready', checks })
})

test('the routes for operators can have a separate port', async (t) => {
  const statuses = async ({ url }: { url: string }) => {
    const paths = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/who']
    return Promise.all(paths.map(async (path) => (await fetch(url + path)).status))
  }
  const apart = await startTestFront(t, {}, { operation: 'apart' })
  assert.deepEqual(await statuses(apart), [200, 404, 404, 200, 200])
  const alone = await startTestFront(t, {}, { operation: 'alone' })
  assert.deepEqual((await statuses(alone)).slice(0, 4), [200, 200, 200, 404])
})

test('/metrics counts requests by route and status, summed over all threads', async (t) => {
  const { url, front } = await startTestFront(t)
  for (const path of [`/echo/${MARKET}`, '/echo/0x1', '/nowhere', '/nowhere']) {
    await fetch(`${url}${path}`)
  }
  const response = await fetch(`${url}/metrics`)
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  const text = await response.text()
  const echo = 'method="GET",route="/echo/{marketId}"'
  assert.ok(text.includes(`sibyl_http_requests_total{${echo},status="200"} 1`))
  assert.ok(text.includes(`sibyl_http_requests_total{${echo},status="400"} 1`))
  assert.ok(text.includes('sibyl_http_requests_total{method="GET",route="*",status="404"} 2'))
  assert.ok(text.includes(`sibyl_http_request_duration_seconds_count{${echo}} 2`))
  assert.match(text, /sibyl_http_requests_in_flight 0/)
  assert.match(text, /sibyl_http_connections [1-9]/)

  const thread = await front.registry.getMetricsAsJSON()
  const all = await AggregatorRegistry.aggregate([thread, thread] as never).metrics()
  assert.ok(all.includes(`sibyl_http_request_duration_seconds_count{${echo}} 4`))
  assert.ok(all.includes(`sibyl_http_requests_total{${echo},status="200"} 2`))
})

test('the page /docs loads only local files, and its content policy allows only these', async (t) => {
  const { url } = await startTestFront(t)
  const page = await fetch(`${url}/docs`)
  assert.match(page.headers.get('content-security-policy') ?? '', /script-src 'self'/)
  const html = await page.text()
  assert.ok(!/https?:\/\//.test(html))
  const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link)
  assert.equal(links.length, 4)
  for (const link of links) {
    const asset = await fetch(new URL(link ?? '', `${url}/docs`))
    assert.equal(asset.status, 200, link)
    assert.ok((await asset.arrayBuffer()).byteLength > 100, link)
  }
  const plain = await new Promise<number>((resolve) => {
    request(`${url}/docs/swagger-ui.css`, (response) => {
      assert.equal(response.headers['content-encoding'], undefined)
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('end', () => resolve(bytes))
    }).end()
  })
  assert.ok(plain > 100_000)
})

test('documents are compressed, and a client with a current ETag gets a 304', async (t) => {
  const { url } = await startTestFront(t)
  for (const path of ['/docs', '/docs/show.js', '/docs/swagger-ui.css', '/openapi.json']) {
    const first = await fetch(`${url}${path}`)
    await first.arrayBuffer()
    assert.equal(first.headers.get('content-encoding'), path === '/docs' ? null : 'gzip', path)
    const etag = first.headers.get('etag') ?? ''
    assert.match(etag, /^W\/"/, path)
    assert.notEqual(first.headers.get('cache-control'), 'no-store', path)
    const again = await fetch(`${url}${path}`, { headers: { 'if-none-match': etag } })
    assert.equal(again.status, 304, path)
  }
})

test('a request whose handler does not answer is answered at its deadline', async (t) => {
  const clock = simulatedClock(Date.now())
  const { url, slowReached, lines, finishSlow, front } = await startTestFront(
    t,
    { deadlineMs: 1_000 },
    { clock },
  )
  const answers = [fetch(`${url}/slow`), fetch(`${url}/slow`, { method: 'POST' })]
  await slowReached
  while (front.inFlight() < 2) await fetch(`${url}/healthz`)
  clock.advance(999)
  assert.equal(front.inFlight(), 2)
  clock.advance(51)
  const codes = ['OVERLOADED', 'OUTCOME_UNKNOWN']
  for (const [at, response] of (await Promise.all(answers)).entries()) {
    assert.equal(response.status, 503)
    assert.equal(response.headers.get('retry-after'), '1')
    assert.equal(((await response.json()) as { code: string }).code, codes[at])
  }
  assert.equal(front.inFlight(), 0)
  assert.equal(lines.filter(({ level }) => level === 'warn').length, 2)
  // The handler answers after its deadline, and the front ignores this answer.
  finishSlow()
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
})

test('if a handler throws an error, the answer is a 500 without details, and the error is logged', async (t) => {
  const { url, lines } = await startTestFront(t)
  for (const path of ['/throws', '/throws-later', '/split-header']) {
    const response = await fetch(`${url}${path}`, {
      headers: { 'x-request-id': `t${path.length}` },
    })
    assert.equal(response.status, 500)
    assert.deepEqual(await response.json(), {
      error: 'internal error of the exchange: report the requestId to its operator',
      code: 'INTERNAL',
      requestId: `t${path.length}`,
    })
    assert.equal(response.headers.get('x-c'), null)
  }
  assert.deepEqual(
    lines.map(({ level, fields }) => [level, (fields as { requestId: string }).requestId]),
    [
      ['error', 't7'],
      ['error', 't13'],
      ['error', 't13'],
    ],
  )
})

test('requests above the limit of requests in flight get a 503, but health checks are still answered', async (t) => {
  const { url, finishSlow, slowReached, front } = await startTestFront(t, {
    requestsInFlightMax: 1,
  })
  const slow = fetch(`${url}/slow`)
  await slowReached
  const refused = await fetch(`${url}/echo/${MARKET}`)
  assert.equal(refused.status, 503)
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal(((await refused.json()) as { code: string }).code, 'OVERLOADED')
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  assert.equal(front.inFlight(), 1)
  finishSlow()
  assert.equal((await slow).status, 200)
  assert.equal((await fetch(`${url}/echo/${MARKET}`)).status, 200)
})

test('a write without valid authentication is refused, and every route applies the rate limit', async (t) => {
  const seen: [string, boolean][] = []
  const { url } = await startTestFront(
    t,
    {},
    {
      services: {
        readiness: () => ({}),
        async authenticate({ authorization }: Arrival) {
          await null
          return authorization === 'Bearer good'
            ? { keyId: 'k1', address: TRADER as Address }
            : reject('NOT_ORDER_OWNER', undefined, 'not you')
        },
        limit({ route, ip }, principal) {
          assert.equal(ip, '127.0.0.1')
          seen.push([route, principal !== undefined])
          return route === '/sums'
            ? { allowed: false, headers: { 'retry-after': '7', 'ratelimit-remaining': '0' } }
            : { allowed: true, headers: { 'ratelimit-remaining': '9' } }
        },
      },
      routes: [
        route({
          method: 'POST',
          path: '/me',
          auth: 'write',
          cost: 'write',
          summary: 'Who am I',
          responses: { 200: Type.Object({ key: Type.String() }) },
          handle: ({ principal }) => ok({ key: principal?.keyId ?? '' }),
        }),
      ],
    },
  )
  const good = await fetch(`${url}/me`, {
    method: 'POST',
    headers: { authorization: 'Bearer good' },
  })
  assert.deepEqual(await good.json(), { key: 'k1' })
  assert.equal(good.headers.get('ratelimit-remaining'), '9')
  const bad = await fetch(`${url}/me`, { method: 'POST' })
  assert.equal(bad.status, 403)
  assert.equal(((await bad.json()) as { error: string }).error, 'not you')
  const limited = await fetch(`${url}/sums`)
  assert.equal(limited.status, 429)
  assert.equal(limited.headers.get('retry-after'), '7')
  assert.equal((await fetch(`${url}/healthz`)).status, 200)
  assert.deepEqual(seen, [
    ['/me', false],
    ['/me', true],
    ['/me', false],
    ['/sums', false],
    ['/healthz', false],
  ])
})

test('if the port is in use, the start fails, and the error names the setting that chooses another port', async (t) => {
  const { front } = await startTestFront(t)
  await assert.rejects(
    startTestFront(t, { port: front.port }),
    (error: Fault) => error instanceof Fault && error.code === 'PORT_IN_USE',
  )
  await assert.rejects(startTestFront(t, { port: front.port, sharePort: true }), /in use/)
  await assert.rejects(claimPort('127.0.0.1', front.port), /in use$/)
  const named = claimPort('127.0.0.1', front.port, 'SIBYL_PORT')
  await assert.rejects(named, /in use; set SIBYL_PORT to another port$/)
})

test('several fronts can listen on one port that the exchange has reserved for them', async (t) => {
  const port = await claimPort('127.0.0.1', 0)
  const first = await startTestFront(t, { port, sharePort: true })
  const second = await startTestFront(t, { port, sharePort: true })
  assert.deepEqual([first.front.port, second.front.port], [port, port])
  await assert.rejects(claimPort('127.0.0.1', port), /in use/)
  await first.front.close()
  assert.equal((await fetch(`${second.url}/healthz`)).status, 200)
})

test('a server that closes finishes the requests in flight, and accepts no new ones', async (t) => {
  const { url, front, slowReached, finishSlow } = await startTestFront(t)
  const slow = fetch(`${url}/slow`)
  await slowReached
  const closing = front.close()
  await assert.rejects(fetch(`${url}/healthz`, { headers: { connection: 'close' } }))
  finishSlow()
  const response = await slow
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('connection'), 'close')
  await closing
  assert.equal(front.close(), front.close())
})

test('a server that closes waits for requests in flight only for a limited time', async (t) => {
  const { url, front, slowReached } = await startTestFront(t)
  const slow = fetch(`${url}/slow`)
  const lost = assert.rejects(slow)
  await slowReached
  await front.close({ drainMs: 1 })
  await lost
  assert.equal(front.inFlight(), 0)
})

/**
 * Runs a script in its own process. A handle that was not closed would keep this process alive, so the test detects it.
 */
async function exitOf(script: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: new URL('../..', import.meta.url),
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    output += chunk
  })
  const [code] = (await once(child, 'exit')) as [number | null]
  return { code, output }
}

const START = `startFront({
  routes: [],
  settings: { host: '127.0.0.1', port: 0, corsOrigins: [], deadlineMs: 120000, requestsInFlightMax: 10 },
  services: { readiness: () => ({}) },
  info: { title: 'T', version: '1' },
  log: console,
})`

test('after its server is closed, a process or a worker thread can exit by itself', async (t: TestContext) => {
  const inProcess = await exitOf(`
    import { startFront } from '#http/server.ts'
    const front = await ${START}
    const open = await fetch('http://127.0.0.1:' + front.port + '/healthz')
    console.log(open.status)
    await front.close()`)
  assert.deepEqual(inProcess, { code: 0, output: '200\n' })
  const inWorker = await exitOf(`
    import { Worker } from 'node:worker_threads'
    const code = \`
      import { parentPort } from 'node:worker_threads'
      import { startFront } from '\${import.meta.resolve('#http/server.ts')}'
      const front = await ${START.replaceAll('`', '')}
      parentPort.postMessage(front.port)
      parentPort.once('message', () => front.close())\`
    const worker = new Worker(new URL('data:text/javascript,' + encodeURIComponent(code)))
    worker.once('message', async (port) => {
      console.log((await fetch('http://127.0.0.1:' + port + '/healthz')).status)
      worker.postMessage('close')
    })
    worker.once('exit', (code) => console.log('exit', code))`)
  t.diagnostic(inWorker.output)
  assert.deepEqual(inWorker, { code: 0, output: '200\nexit 0\n' })
})

test('the server does not start with an invalid table of routes', async () => {
  const start = (routes: Parameters<typeof startFront>[0]['routes']): Promise<Front> =>
    startFront({
      routes,
      settings: {
        host: '127.0.0.1',
        port: 0,
        corsOrigins: [],
        deadlineMs: 1,
        requestsInFlightMax: 1,
      },
      services: { readiness: () => ({}) },
      info: { title: 'T', version: '1' },
      log: console,
    })
  const common = { auth: 'public', cost: 'read', summary: '', responses: {} } as const
  const handle = () => ({ status: 200, raw: '' })
  await assert.rejects(
    start([route({ ...common, method: 'GET', path: '/a/{b}', handle })]),
    /same parameters/,
  )
  await assert.rejects(
    start([
      route({
        ...common,
        method: 'POST',
        path: '/a',
        body: Type.Object({ a: Type.Null() }),
        handle,
      }),
    ]),
    /additionalProperties/,
  )
})
