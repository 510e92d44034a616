/**
 * Tests every error that a client can make, over real sockets. Each gets its status, code and field, and a
 * well-behaved client is answered in the meantime.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { REJECTION_CODES } from '#domain/rejection.ts'
import { ERRORS } from '#http/errors.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import {
  MARKET,
  openRaw,
  postText,
  readResponses,
  sendRaw,
  startTestFront,
  type TestFront,
  TRADER,
} from './front-fixture.ts'

type ErrorBody = { readonly error: string; readonly code: string; readonly field?: string }

/** Starts a front and a well-behaved client whose requests must all succeed until the test ends. */
async function startObserved(
  t: TestContext,
  ...rest: Parameters<typeof startTestFront> extends [unknown, ...infer Rest] ? Rest : never
): Promise<TestFront> {
  const testFront = await startTestFront(t, ...rest)
  let ended = false
  let answered = 0
  const asking = (async () => {
    do {
      const response = await fetch(`${testFront.url}/echo/${MARKET}?limit=3`)
      assert.equal(response.status, 200)
      assert.equal(((await response.json()) as { query: { limit: number } }).query.limit, 3)
      answered++
    } while (!ended)
  })()
  testFront.beforeClose.push(async () => {
    ended = true
    await asking
    assert.ok(answered > 0)
  })
  return testFront
}

async function assertError(
  response: Response,
  status: number,
  code: string,
  field?: string,
): Promise<ErrorBody> {
  const text = await response.text()
  const body = JSON.parse(text) as ErrorBody
  assert.deepEqual([response.status, body.code, body.field], [status, code, field], text)
  assert.ok(body.error.length > 0)
  assert.equal(response.headers.get('content-type'), 'application/json')
  assert.ok(response.headers.get('x-request-id'))
  return body
}

const order = (change: Record<string, string> = {}): string => {
  const fields = { nonce: '1', price: '5', trader: `"${TRADER}"`, side: '0', ...change }
  const inner = Object.entries(fields).map(([name, value]) => `"${name}":${value}`)
  return `{"order":{${inner.join(',')}}}`
}

test('every rejection code has an HTTP status and an explanation', () => {
  for (const code of REJECTION_CODES) {
    const { status, sentence } = ERRORS[code]
    assert.ok(status >= 400 && status < 600 && sentence.length > 0, code)
    assert.equal(ERRORS[code].retryAfterSec !== undefined, status === 503 || status === 429, code)
  }
})

test('bodies that are not JSON are refused', async (t) => {
  const { url } = await startObserved(t)
  for (const body of ['', '{', 'null,', '{"order":}', "{'a':1}", '['.repeat(60_000)]) {
    await assertError(await postText(`${url}/orders`, body), 400, 'INVALID_JSON')
  }
  const notUtf8 = Uint8Array.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])
  await assertError(await postText(`${url}/orders`, notUtf8), 400, 'INVALID_JSON')
  await assertError(
    await postText(`${url}/orders`, '['.repeat(99) + ']'.repeat(99)),
    400,
    'INVALID_JSON',
  )
})

test('wrong types, missing fields and unknown fields are refused, and the error names the field', async (t) => {
  const { url } = await startObserved(t)
  const cases: [body: string, code: string, field?: string][] = [
    ['[]', 'INVALID_FIELD'],
    ['"text"', 'INVALID_FIELD'],
    ['{}', 'MISSING_FIELD', 'order'],
    ['{"order":null}', 'INVALID_FIELD', 'order'],
    ['{"order":[]}', 'INVALID_FIELD', 'order'],
    ['{"order":{"price":5}}', 'MISSING_FIELD', 'order.nonce'],
    [order({ extra: '1' }), 'INVALID_FIELD', 'order.extra'],
    [order({ trader: '"0x12"' }), 'INVALID_FIELD', 'order.trader'],
    [order({ trader: '5' }), 'INVALID_FIELD', 'order.trader'],
    [order({ side: '"1"' }), 'INVALID_FIELD', 'order.side'],
    [order({ side: 'true' }), 'INVALID_FIELD', 'order.side'],
    [order({ side: '12345678901234567890' }), 'INVALID_FIELD', 'order.side'],
    [order({ ['__proto__']: '{"side":1}' }), 'INVALID_FIELD', 'order.__proto__'],
    [order({ constructor: '1' }), 'INVALID_FIELD', 'order.constructor'],
    [order().replace('}}', '},"tags":[1]}'), 'INVALID_FIELD', 'tags[0]'],
    [order().replace('}}', '},"tags":["a","b","c","d"]}'), 'INVALID_FIELD', 'tags'],
    [order().replace('}}', '},"tags":[12345678901234567890]}'), 'INVALID_FIELD', 'tags[0]'],
    [order().replace('}}', '},"more":[1,-1]}'), 'INVALID_FIELD', 'more[1]'],
    [order().replace('"side":0', '"side":0,"side":0'), 'INVALID_FIELD', 'order.side'],
  ]
  for (const field of ['nonce', 'price']) {
    for (const value of [
      '1.5',
      '1.0',
      '1e3',
      '"abc"',
      '""',
      '" 1"',
      '"01"',
      '"0x1"',
      '"1e3"',
      '-1',
      '-0',
      '"-1"',
      'null',
      'true',
      '[]',
      '{}',
      '18446744073709551616',
      '"18446744073709551616"',
      '1e400',
      '9'.repeat(5_000),
      `"${'9'.repeat(5_000)}"`,
    ]) {
      cases.push([order({ [field]: value }), 'INVALID_FIELD', `order.${field}`])
    }
  }
  cases.push([order({ price: '9007199254740992' }), 'INVALID_FIELD', 'order.price'])
  for (const [body, code, field] of cases) {
    await assertError(await postText(`${url}/orders`, body), 400, code, field)
  }
  assert.equal(({} as { side?: unknown }).side, undefined)
  assert.equal((await postText(`${url}/orders`, order())).status, 200)
})

test('the error about an unknown field stays short even if the field’s name has 30,000 characters', async (t) => {
  const { url } = await startObserved(t)
  const name = 'n'.repeat(30_000)
  for (const body of [order({ [name]: '1' }), `{"${name}":1,"${name}":1}`]) {
    const response = await postText(`${url}/orders`, body)
    assert.equal(response.status, 400)
    assert.ok((await response.text()).length < 500)
  }
})

test('query parameters that are unknown, repeated, malformed or missing are refused', async (t) => {
  const { url } = await startObserved(t)
  const cases: [query: string, code: string, field?: string][] = [
    ['limit=1&limit=1', 'INVALID_FIELD', 'limit'],
    ['limits=1', 'INVALID_FIELD', 'limits'],
    ['Limit=1', 'INVALID_FIELD', 'Limit'],
    ['__proto__=1', 'INVALID_FIELD', '__proto__'],
    ['toString', 'INVALID_FIELD', 'toString'],
    ['limit', 'INVALID_FIELD', 'limit'],
    ['limit=', 'INVALID_FIELD', 'limit'],
    ['limit=0', 'INVALID_FIELD', 'limit'],
    ['limit=101', 'INVALID_FIELD', 'limit'],
    ['limit=1.5', 'INVALID_FIELD', 'limit'],
    ['limit=-1', 'INVALID_FIELD', 'limit'],
    ['limit=1e1', 'INVALID_FIELD', 'limit'],
    ['limit=%31%zz', 'INVALID_FIELD', 'limit'],
    ['%zz=1', 'INVALID_FIELD', '%zz'],
    ['limit=99999999999999999999999', 'INVALID_FIELD', 'limit'],
    ['side=BUY', 'INVALID_FIELD', 'side'],
    ['quick=1', 'INVALID_FIELD', 'quick'],
    ['name=123456789', 'INVALID_FIELD', 'name'],
    ['name=a%00b', 'INVALID_FIELD', 'name'],
  ]
  for (const [query, code, field] of cases) {
    await assertError(await fetch(`${url}/echo/${MARKET}?${query}`), 400, code, field)
  }
  await assertError(await fetch(`${url}/needs`), 400, 'MISSING_FIELD', 'trader')
  await assertError(await fetch(`${url}/needs?`), 400, 'MISSING_FIELD', 'trader')
  await assertError(await fetch(`${url}/healthz?x=1`), 400, 'INVALID_FIELD', 'x')
  assert.equal((await fetch(`${url}/echo/${MARKET}?&limit=1&&`)).status, 200)
})

test('malformed path parameters are refused', async (t) => {
  const { url, front } = await startObserved(t)
  for (const path of ['/echo/0x1', '/echo/abc', `/echo/${MARKET}0`, '/echo/%20']) {
    await assertError(await fetch(`${url}${path}`), 400, 'INVALID_FIELD', 'marketId')
  }
  for (const path of ['/echo/%zz', '/echo/\xff', '/echo/%ff']) {
    const [response] = await sendRaw(front.port, `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
    assert.equal(response?.status, 400, path)
    assert.equal((JSON.parse(response?.body ?? '') as ErrorBody).field, 'marketId')
  }
})

test('unknown paths are answered with 404', async (t) => {
  const { url, front } = await startObserved(t)
  for (const path of [
    '/',
    '/nowhere',
    '/echo',
    '/echo/',
    `/echo/${MARKET}/`,
    '//healthz',
    '/HEALTHZ',
  ]) {
    await assertError(await fetch(`${url}${path}`), 404, 'NOT_FOUND')
    await assertError(await fetch(`${url}${path}`, { method: 'OPTIONS' }), 404, 'NOT_FOUND')
  }
  const [response] = await sendRaw(front.port, 'GET /a/../healthz HTTP/1.1\r\nhost: x\r\n\r\n')
  assert.equal(response?.status, 404)
})

test('a method that a path does not support is refused, and the answer lists the supported methods', async (t) => {
  const { url, front } = await startObserved(t)
  const cases: [method: string, path: string, allow: string][] = [
    ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/orders', 'POST, OPTIONS'],
    ['GET', `/orders/${MARKET}`, 'DELETE, OPTIONS'],
    ['PUT', '/slow', 'GET, POST, HEAD, OPTIONS'],
    ['PATCH', `/echo/${MARKET}`, 'GET, HEAD, OPTIONS'],
  ]
  for (const [method, path, allow] of cases) {
    const response = await fetch(`${url}${path}`, { method })
    assert.equal(response.headers.get('allow'), allow)
    await assertError(response, 405, 'METHOD_NOT_ALLOWED')
  }
  for (const method of ['TRACE', 'BREW', 'get']) {
    const text = `${method} /healthz HTTP/1.1\r\nhost: x\r\n\r\n`
    const [response] = await sendRaw(front.port, text)
    assert.ok(response?.status === 405 || (method === 'get' && response?.status === 200), method)
  }
  // The body of a refused request is skipped, and the connection stays usable.
  const [refused, served] = await sendRaw(
    front.port,
    'PUT /orders HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhelloGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n',
    2,
  )
  assert.deepEqual([refused?.status, served?.status], [405, 200])
})

test('content types other than JSON in UTF-8 are refused', async (t) => {
  const { url } = await startObserved(t)
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'application/json; charset=latin1',
    'multipart/form-data; boundary=x',
    `application/json${' '.repeat(3_800)}x`,
  ]) {
    const headers = { 'content-type': type }
    const response = await fetch(`${url}/orders`, { method: 'POST', body: order(), headers })
    await assertError(response, 415, 'UNSUPPORTED_MEDIA_TYPE')
  }
  const unnamed = await fetch(`${url}/orders`, { method: 'POST', body: Buffer.from(order()) })
  await assertError(unnamed, 415, 'UNSUPPORTED_MEDIA_TYPE')
  for (const type of ['application/json', 'Application/JSON; Charset="UTF-8"']) {
    const headers = { 'content-type': type }
    const response = await fetch(`${url}/orders`, { method: 'POST', body: order(), headers })
    assert.equal(response.status, 200)
  }
})

test('bodies that are too large are refused, with and without Content-Length', async (t) => {
  const { url, front } = await startObserved(t)
  const fits = order().padEnd(65_536, ' ')
  assert.equal((await postText(`${url}/orders`, fits)).status, 200)
  for (const bytes of [65_537, 1_000_000, 20_000_000]) {
    const response = await postText(`${url}/orders`, ' '.repeat(bytes)).catch(() => undefined)
    // If a body is far above the limit, the front closes the connection while the client still writes. The client may
    // then lose the answer.
    if (response === undefined) assert.equal(bytes, 20_000_000)
    else await assertError(response, 413, 'BODY_TOO_LARGE')
  }
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
  const head = 'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
  const text = `${head}transfer-encoding: chunked\r\n\r\n${chunk.repeat(10)}0\r\n\r\n`
  assert.equal((await sendRaw(front.port, text))[0]?.status, 413)
  assert.equal(front.inFlight(), 0)
})

test('a route for one item refuses a body above 4096 bytes, and the error gives this limit', async (t) => {
  const { url } = await startObserved(t)
  assert.equal((await postText(`${url}/maybe`, '{}'.padEnd(4_096, ' '))).status, 200)
  const response = await postText(`${url}/maybe`, '{}'.padEnd(4_097, ' '))
  const { error } = await assertError(response, 413, 'BODY_TOO_LARGE')
  assert.equal(error, 'the request body must have at most 4096 bytes')
})

test('a request whose body length is ambiguous is refused, and its connection is closed', async (t) => {
  const { front } = await startObserved(t)
  const heads = [
    'POST /maybe HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n',
    'GET /who HTTP/1.1\r\nhost: x\r\n',
    'DELETE /nothing/here HTTP/1.1\r\nhost: x\r\n',
    'HEAD /who HTTP/1.1\r\nhost: x\r\n',
  ]
  const chunks = '2\r\n{}\r\n0\r\n\r\n'
  // Pairs of ambiguous header lines and the body that the HTTP library would read after them.
  const twice: [lines: string, body: string][] = [
    ['content-length: 2\r\ncontent-length: 4\r\n', '{}'],
    ['content-length: 4\r\ncontent-length: 2\r\n', '{}  '],
    ['content-length: \r\ncontent-length: 2\r\n', ''],
    ['content-length:\r\n', ''],
    ['content-length: \r\ntransfer-encoding: chunked\r\n', chunks],
    ['transfer-encoding: \r\ntransfer-encoding: chunked\r\n', ''],
    ['transfer-encoding: \r\n', ''],
    ['transfer-encoding: xchunked\r\n', chunks],
    ['transfer-encoding: gzip, chunked\r\n', chunks],
    ['transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n', chunks],
  ]
  for (const head of heads) {
    for (const [lines, body] of twice) {
      const text = `${head}${lines}\r\n${body}`
      const method = head.startsWith('HEAD') ? 'head' : 'other'
      // The client reads up to two responses, but the front closes the connection after the first.
      const responses = await sendRaw(front.port, text, 2, method)
      const field = lines.slice(0, lines.indexOf(':'))
      const told = responses.map(({ status, body: answer }) => [
        status,
        method === 'head' ? field : (JSON.parse(answer) as ErrorBody).field,
      ])
      const flawed = lines.startsWith('content-length: \r\ntransfer') ? 'content-length' : field
      assert.deepEqual(told, [[400, flawed]], text)
      const next = 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'
      const more = await sendRaw(front.port, text + next, 2)
      assert.ok(!more.some(({ status }) => status === 200), `what follows is served: ${text}`)
    }
  }
})

test('the server closes a connection after a chunked body, so no hidden second request is served', async (t) => {
  const { front } = await startObserved(t)
  const next = 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'
  const json = 'content-type: application/json\r\n'
  for (const head of [
    `POST /maybe HTTP/1.1\r\n${json}`,
    'POST /maybe HTTP/1.1\r\n',
    'PUT /orders HTTP/1.1\r\n',
    'GET /who HTTP/1.1\r\n',
    'HEAD /who HTTP/1.1\r\n',
  ]) {
    for (const chunks of ['2\r\n{}\r\n0\r\n\r\n', '2\r\n{}XX0\r\n\r\n', '2 \r\n{}\r\n0\r\n\r\n']) {
      const text = `${head}host: x\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`
      const method = head.startsWith('HEAD') ? 'head' : 'other'
      // The client reads up to two responses, but the front closes the connection after the first.
      const alone = await sendRaw(front.port, text, 2, method)
      assert.equal(alone.length, 1, text)
      const all = await sendRaw(front.port, text + next, 2, method)
      assert.ok(!all.some(({ body }) => body.includes('ok')), `what follows is served: ${text}`)
    }
  }
})

test('a chunked body without an end is refused, and its connection is closed', async (t) => {
  const { front } = await startObserved(t)
  const socket = await openRaw(front.port)
  const responses = readResponses(socket, 1)
  socket.write(
    'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
  )
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
  const closed = new Promise((resolve) => socket.once('close', resolve))
  const pour = (): void => {
    while (socket.writable && socket.write(chunk));
  }
  socket.on('drain', pour)
  socket.on('error', () => undefined)
  pour()
  await closed
  const [response] = await responses
  assert.ok(response === undefined || response.status === 413)
  assert.equal(front.inFlight(), 0)
})

test('a client that disconnects in the middle of its body leaves no request in flight', async (t) => {
  const { front, url } = await startObserved(t)
  const head = 'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
  const sockets = await Promise.all(Array.from({ length: 20 }, () => openRaw(front.port)))
  for (const [at, socket] of sockets.entries()) {
    socket.write(at % 2 === 0 ? `${head}content-length: 100\r\n\r\n{"or` : `${head}content-le`)
  }
  while (front.inFlight() < 10) await fetch(`${url}/healthz`)
  for (const [at, socket] of sockets.entries()) {
    if (at % 3 === 0) socket.resetAndDestroy()
    else socket.destroy()
  }
  while (front.inFlight() > 0) await fetch(`${url}/healthz`)
  const text = await (await fetch(`${url}/metrics`)).text()
  assert.ok(text.includes('sibyl_http_requests_aborted_total{method="POST",route="/orders"} 10'))
})

test('a client that disconnects before its answer leaves no request in flight', async (t) => {
  const { front, url, slowReached, finishSlow, lines } = await startObserved(t)
  const socket = await openRaw(front.port)
  socket.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n')
  await slowReached
  assert.equal(front.inFlight(), 1)
  socket.destroy()
  while (front.inFlight() > 0) await fetch(`${url}/healthz`)
  finishSlow()
  assert.equal((await fetch(`${url}/slow`)).status, 200)
  assert.deepEqual(lines, [])
})

test('a client that does not finish its request body gets a 408, and its connection is closed', async (t) => {
  const clock = simulatedClock(Date.now())
  const { front } = await startObserved(t, { deadlineMs: 1_000 }, { clock })
  const socket = await openRaw(front.port)
  const responses = readResponses(socket, 1)
  const closed = once(socket, 'close')
  socket.write(
    'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{',
  )
  while (front.inFlight() === 0) await new Promise((resolve) => setImmediate(resolve))
  clock.advance(1_100)
  const [response] = await responses
  assert.equal(response?.status, 408)
  assert.equal((JSON.parse(response?.body ?? '') as ErrorBody).code, 'REQUEST_TIMEOUT')
  await closed
  assert.equal(front.inFlight(), 0)
})

test('a client that never reads its answers does not slow down other clients', async (t) => {
  const { front, url } = await startObserved(t)
  const sockets = await Promise.all(Array.from({ length: 5 }, () => openRaw(front.port)))
  for (const socket of sockets) {
    socket.pause()
    socket.write('GET /large HTTP/1.1\r\nhost: x\r\n\r\n')
  }
  while (front.inFlight() < sockets.length) await fetch(`${url}/healthz`)
  assert.equal((await fetch(`${url}/echo/${MARKET}`)).status, 200)
  for (const socket of sockets) socket.destroy()
  while (front.inFlight() > 0) await fetch(`${url}/healthz`)
})

test('the server refuses requests with malformed headers, lengths or chunks, and stays available', async (t) => {
  const { front, url } = await startObserved(t)
  const get = 'GET /healthz HTTP/1.1\r\nhost: x\r\n'
  const post = 'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
  const refused: [text: string, status: number][] = [
    [`${get}big: ${'x'.repeat(8_000)}\r\n\r\n`, 431],
    [`${get}${'a: b\r\n'.repeat(150)}\r\n`, 431],
    ['GET /healthz HTTP/1.0\r\n\r\n', 505],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 505],
    [`${post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    [`${post}content-length: -5\r\n\r\nhello`, 400],
    [`${post}content-length: 99999999999999999999\r\n\r\nhello`, 400],
    [`${post}transfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n`, 400],
    [`${post}transfer-encoding: gzip\r\n\r\nhello`, 400],
  ]
  for (const [text, status] of refused) {
    const [response] = await sendRaw(front.port, text)
    assert.equal(response?.status, status, text.slice(0, 120))
  }
  // The HTTP library waits for the rest of these requests, so the test closes the connection.
  for (const text of [
    'GARBAGE\r\n\r\n',
    `${get}bad header\r\n\r\n`,
    `${get}a: b\0c\r\n\r\n`,
    '\0',
  ]) {
    const socket = await openRaw(front.port)
    socket.write(text)
    assert.equal((await fetch(`${url}/healthz`)).status, 200)
    socket.destroy()
  }
  assert.equal(front.inFlight(), 0)
})

test('requests with random bytes do not end the process', async (t) => {
  const { front, url } = await startObserved(t)
  const seed = Date.now() % 2 ** 31
  t.diagnostic(`seed ${seed}`)
  let state = seed
  const random = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
  const starts = [
    'GET /echo/',
    'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n',
    'HEAD ',
    'POST /orders HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 40\r\n\r\n',
    'GET /echo/1?',
    'OPTIONS /orders HTTP/1.1\r\nhost: x\r\norigin: ',
    '',
  ]
  for (let round = 0; round < 200; round++) {
    const socket = await openRaw(front.port)
    socket.on('error', () => undefined)
    const noise = Buffer.from(Array.from({ length: random(200) }, () => random(256)))
    const text = Buffer.concat([Buffer.from(starts[random(starts.length)] ?? ''), noise])
    socket.end(Buffer.concat([text, Buffer.from(' HTTP/1.1\r\nhost: x\r\n\r\n')]))
    socket.resume()
    await once(socket, 'close')
  }
  while (front.inFlight() > 0) await fetch(`${url}/healthz`)
})
