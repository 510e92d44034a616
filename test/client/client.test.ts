import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type ClientOptions, createClient } from '#client/client.ts'
import { parseExactJson } from '#client/exact-json.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { eventually } from '../support/eventually.ts'
import { DEVNET, signedOrder, traderNumbered } from '../support/signed-orders.ts'

const MARKET = `0x${'ab'.repeat(32)}` as MarketId
const HASH = `0x${'cd'.repeat(32)}`
const ACCEPTED = { orderHash: HASH, status: 'accepted', matches: 0, timestamp: 1_800_000_000 }
const ann = traderNumbered(31)

type Said = {
  status?: number
  body?: unknown
  text?: string
  headers?: Record<string, string>
  /** Breaks the connection instead of answering. */
  breaks?: true
  /** Never answers. */
  hangs?: true
}
type Heard = { method: string; path: string; headers: IncomingMessage['headers']; body: string }

/** Starts a real server that sends the scripted answers in order, and repeats the last one. */
async function scripted(t: TestContext, script: Said[], options: Partial<ClientOptions> = {}) {
  const received: Heard[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request
      received.push({ method, path, headers, body })
      answer(response, script[Math.min(received.length, script.length) - 1] ?? {})
    })
  })
  function answer(response: ServerResponse, said: Said): void {
    if (said.hangs) return
    if (said.breaks) {
      response.destroy()
      return
    }
    response.writeHead(said.status ?? 200, {
      'content-type': 'application/json',
      'x-request-id': 'r-1',
      ...said.headers,
    })
    response.end(said.text ?? JSON.stringify(said.body ?? ACCEPTED))
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return { received, url, client: createClient({ url, backoffMs: 1, domain: DEVNET, ...options }) }
}

async function failure(promise: Promise<unknown>): Promise<SibylError> {
  const error = await promise.then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SibylError, String(error))
  return error
}

/** Returns an answer with which the exchange refuses a request temporarily. */
function refusal(code: string, retryAfter = '0', status = 503): Said {
  return { status, body: { error: 'no', code }, headers: { 'retry-after': retryAfter } }
}
const overloaded = refusal('OVERLOADED')
const unknown = refusal('OUTCOME_UNKNOWN')

test('the client retries a retryable request with identical bytes', async (t) => {
  const script: Said[] = [
    { breaks: true },
    overloaded,
    unknown,
    refusal('RATE_LIMITED', '0', 429),
    refusal('CHAIN_UNAVAILABLE'),
    { status: 502, text: '<html>bad gateway</html>' },
    {},
  ]
  const { client, received } = await scripted(t, script, { retries: script.length - 1 })
  const submission = await signedOrder(MARKET)
  assert.deepEqual(await client.orders.submit(submission), ACCEPTED)
  assert.equal(received.length, script.length)
  assert.equal(new Set(received.map(({ body }) => body)).size, 1)
  assert.deepEqual(JSON.parse(received[0]!.body), submission)
})

test('a refused request is not retried, and its error has the code of the refusal', async (t) => {
  const refusals: [status: number, code: string][] = [
    [400, 'PRICE_OUT_OF_RANGE'],
    [401, 'UNAUTHORIZED_TOKEN_EXPIRED'],
    [404, 'MARKET_NOT_FOUND'],
    [409, 'ORDER_CLOSED'],
    [422, 'INSUFFICIENT_FUNDS'],
    [429, 'RATE_LIMITED'],
    // These answers have no header that asks for a retry, so the client does not retry.
    [503, 'SETTLEMENT_BEHIND'],
    [503, 'CHAIN_UNAVAILABLE'],
    [500, 'INTERNAL'],
  ]
  for (const [status, code] of refusals) {
    const body = { error: 'no', code, field: 'order.price' }
    const { client, received } = await scripted(t, [{ status, body }])
    const error = await failure(client.orders.submit(await signedOrder(MARKET)))
    assert.deepEqual(
      [error.status, error.code, error.message, error.field, error.requestId, error.attempts],
      [status, code, 'no', 'order.price', 'r-1', 1],
    )
    assert.equal(received.length, 1, code)
    assert.equal(error.outcomeUnknown, code === 'INTERNAL', code)
  }
})

test('the client’s error after the last attempt states the number of attempts and whether the order may exist', async (t) => {
  const cases: [script: Said[], code: string, outcomeUnknown: boolean][] = [
    [[overloaded], 'OVERLOADED', false],
    [[unknown], 'OUTCOME_UNKNOWN', true],
    [[{ breaks: true }], 'NETWORK', true],
    // The first attempt may have placed the order, so the outcome stays unknown after a later refusal.
    [[{ breaks: true }, overloaded], 'OVERLOADED', true],
    [[{ status: 504, text: '' }], 'UNEXPECTED_ANSWER', true],
    [[refusal('CHAIN_UNAVAILABLE')], 'CHAIN_UNAVAILABLE', false],
    [[refusal('RELAYER_UNAVAILABLE')], 'RELAYER_UNAVAILABLE', false],
    [[unknown, refusal('CHAIN_UNAVAILABLE')], 'CHAIN_UNAVAILABLE', true],
    [[refusal('SETTLEMENT_BEHIND'), unknown, overloaded], 'OVERLOADED', true],
    [[refusal('RATE_LIMITED', '0', 429)], 'RATE_LIMITED', false],
    [[unknown, refusal('RATE_LIMITED', '0', 429)], 'RATE_LIMITED', true],
  ]
  for (const [script, code, outcomeUnknown] of cases) {
    const { client, received } = await scripted(t, script, { retries: 2, signer: ann.key })
    const intent = { marketId: MARKET, side: 'buy', outcome: 'YES' } as const
    const error = await failure(
      client.orders.place({ ...intent, price: '0.5', size: '1', ttlSeconds: 100 }),
    )
    assert.deepEqual(
      [error.code, error.attempts, error.outcomeUnknown, received.length],
      [code, 3, outcomeUnknown, 3],
    )
    assert.deepEqual(error.submission, JSON.parse(received[0]!.body), 'it can be submitted again')
  }
})

test('after a lost answer, an order’s outcome stays unknown unless the exchange refuses the order itself on retry', async (t) => {
  const cases: [said: Said, code: string, outcomeUnknown: boolean][] = [
    [{ status: 401, body: { error: 'no', code: 'UNAUTHORIZED_TOKEN_EXPIRED' } }, '', true],
    [{ status: 403, body: { error: 'no', code: 'NOT_ORDER_OWNER' } }, '', true],
    [{ status: 413, body: { error: 'no', code: 'BODY_TOO_LARGE' } }, '', true],
    [{ status: 415, body: { error: 'no', code: 'UNSUPPORTED_MEDIA_TYPE' } }, '', true],
    [{ status: 400, text: 'a proxy' }, 'UNEXPECTED_ANSWER', true],
    [{ status: 404, body: {} }, 'UNEXPECTED_ANSWER', true],
    [{ status: 400, body: { error: 'no', code: 'EXPIRATION_TOO_SOON' } }, '', false],
    [{ status: 409, body: { error: 'no', code: 'ORDER_CLOSED' } }, '', false],
    // A removed market no longer knows whether it accepted the order at the first attempt, so the outcome stays
    // unknown.
    [{ status: 409, body: { error: 'no', code: 'MARKET_CLOSED' } }, '', true],
    [{ status: 422, body: { error: 'no', code: 'INSUFFICIENT_FUNDS' } }, '', false],
  ]
  for (const [said, code, outcomeUnknown] of cases) {
    const { client, received } = await scripted(t, [{ breaks: true }, said])
    const error = await failure(client.orders.submit(await signedOrder(MARKET)))
    const expected = code || (said.body as { code: string }).code
    assert.deepEqual(
      [error.code, error.attempts, error.outcomeUnknown],
      [expected, 2, outcomeUnknown],
    )
    assert.equal(received.length, 2)
  }
})

test('a request to a server that does not answer ends after the timeout', async (t) => {
  const { client, received } = await scripted(t, [{ hangs: true }, {}], { timeoutMs: 100 })
  const order = await signedOrder(MARKET)
  // The first attempt times out as soon as the server has received its request. The second attempt has no timeout.
  const timeouts: number[] = []
  const timer = t.mock.method(AbortSignal, 'timeout', (ms: number) => {
    const attempt = new AbortController()
    if (timeouts.push(ms) === 1) {
      void eventually(() => assert.equal(received.length, 1)).then(() => attempt.abort())
    }
    return attempt.signal
  })
  assert.deepEqual(await client.orders.submit(order), ACCEPTED)
  timer.mock.restore()
  assert.equal(received.length, 2)
  assert.deepEqual(timeouts, [100, 100])
  const silent = await scripted(t, [{ hangs: true }], { timeoutMs: 50, retries: 0 })
  const error = await failure(silent.client.markets())
  assert.deepEqual([error.code, error.status, error.attempts], ['TIMEOUT', undefined, 1])
})

test('a request to an unreachable server fails with the error NETWORK', async () => {
  const client = createClient({ url: 'http://127.0.0.1:1', retries: 1, backoffMs: 1 })
  const error = await failure(client.markets())
  assert.deepEqual([error.code, error.attempts], ['NETWORK', 2])
})

test('an abort signal cancels a request, also during the pause between two attempts', async (t) => {
  const { client } = await scripted(t, [{ hangs: true }])
  const during = new AbortController()
  const asked = client.markets({}, { signal: during.signal })
  during.abort(new Error('enough'))
  const error = await failure(asked)
  assert.deepEqual([error.code, (error.cause as Error).message], ['ABORTED', 'enough'])

  const later = refusal('OVERLOADED', '20')
  const between = new AbortController()
  const waiting = await scripted(t, [later], {
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      setImmediate(() => between.abort())
      return response
    },
  })
  const stopped = await failure(waiting.client.markets({}, { signal: between.signal }))
  assert.deepEqual([stopped.code, stopped.attempts], ['ABORTED', 1])

  const before = await failure(client.markets({}, { signal: AbortSignal.abort() }))
  assert.deepEqual([before.code, before.attempts], ['ABORTED', 0])
})

test("the client does not retry if the server requests a pause above the client's maximum", async (t) => {
  const patient: Said = { ...overloaded, headers: { 'retry-after': '3600' } }
  const { client, received } = await scripted(t, [patient])
  assert.equal((await failure(client.markets())).code, 'OVERLOADED')
  assert.equal(received.length, 1)
})

test('the client calls the caller’s header function again for each attempt of a request', async (t) => {
  let tokens = 0
  const { client, received } = await scripted(t, [overloaded, unknown, {}], {
    headers: async () => ({ authorization: `Bearer ${++tokens}` }),
  })
  await client.orders.cancel({ orderHash: HASH, marketId: MARKET, side: 'sell' })
  assert.deepEqual(
    received.map(({ headers }) => headers.authorization),
    ['Bearer 1', 'Bearer 2', 'Bearer 3'],
  )
  assert.equal(received[0]?.method, 'DELETE')
  assert.equal(received[0]?.path, `/api/v1/orders/${HASH}?marketId=${MARKET}&side=sell`)
  assert.equal(received[0]?.headers['content-type'], undefined)
})

test('the client reads all pages of the list of open orders', async (t) => {
  const page = (orderHash: string, nextCursor: string | null) => ({
    body: { orders: [{ orderHash }], count: 3, nextCursor },
  })
  const { client, received } = await scripted(t, [
    page('a', '1.x'),
    page('b', '2.x'),
    page('c', null),
  ])
  const open = await client.orders.list({ trader: HASH, market: MARKET })
  assert.deepEqual(
    open.map(({ orderHash }) => orderHash),
    ['a', 'b', 'c'],
  )
  const path = `/api/v1/orders?trader=${HASH}&market=${MARKET}`
  assert.deepEqual(
    received.map((each) => each.path),
    [path, `${path}&cursor=1.x`, `${path}&cursor=2.x`],
  )
})

test('the client cancels all orders of a trader, in one market or in all markets', async (t) => {
  const body = { status: 'cancelled', orderHashes: [HASH], count: 1 }
  const { client, received } = await scripted(t, [{ body }])
  assert.deepEqual(await client.orders.cancelAll(), body)
  await client.orders.cancelAll({ market: MARKET })
  assert.deepEqual(
    received.map(({ method, path }) => `${method} ${path}`),
    ['DELETE /api/v1/orders', `DELETE /api/v1/orders?market=${MARKET}`],
  )
})

test('if the exchange refuses an order of a batch with OVERLOADED, the client sends the order again', async (t) => {
  const [one, two, three] = await Promise.all([
    signedOrder(MARKET),
    signedOrder(MARKET),
    signedOrder(MARKET),
  ])
  const refused = { error: 'no', code: 'MARKET_CLOSED' }
  const results = [ACCEPTED, { error: 'busy', code: 'OVERLOADED' }, refused]
  const { client, received } = await scripted(t, [{ body: { results, count: 3 } }, unknown, {}])
  const answers = await client.orders.submitBatch([one, two, three])
  assert.deepEqual(
    answers.map((answer) => (answer.ok ? answer.placed.status : answer.error.code)),
    ['accepted', 'accepted', 'MARKET_CLOSED'],
  )
  assert.deepEqual(
    received.map(({ path }) => path),
    ['/api/v1/orders/batch', '/api/v1/orders', '/api/v1/orders'],
  )
  assert.deepEqual(JSON.parse(received[2]!.body), two)
})

test('if the exchange does not answer a batch of orders, the client returns an error for each order', async (t) => {
  const submission = await signedOrder(MARKET)
  const { client } = await scripted(t, [{ breaks: true }], { retries: 0 })
  const [result] = await client.orders.submitBatch([submission])
  assert.ok(result?.ok === false)
  assert.deepEqual([result.error.code, result.error.outcomeUnknown], ['NETWORK', true])
  assert.equal(result.error.submission, submission)
  assert.deepEqual(await client.orders.submitBatch([]), [])
})

test('the client parses integers above 2^53 exactly, and does not change digits in strings', async (t) => {
  const text = `{"marketId":"${MARKET}","bids":[{"price":2,"size":18446744073709551617},{"price":1,"size":5}],"asks":[{"price":3,"size":9007199254740991}],"lastUpdate":1,"seq":2}`
  const { client } = await scripted(t, [{ text }])
  const { bids, asks } = await client.orderbook(MARKET)
  assert.deepEqual(bids, [
    { price: 2, size: 18_446_744_073_709_551_617n },
    { price: 1, size: 5n },
  ])
  assert.deepEqual(asks, [{ price: 3, size: 9_007_199_254_740_991n }])
  const odd =
    '{"a\\"1":"say \\\\\\" 12345678901234567890 \\\\","n":-9007199254740993,"m":[9007199254740991]}'
  assert.deepEqual(parseExactJson(odd), {
    'a"1': 'say \\" 12345678901234567890 \\',
    n: '-9007199254740993',
    m: [9_007_199_254_740_991],
  })
})

test('the client caches the exchange’s configuration, and reads it again only after a failed read', async (t) => {
  const config = {
    serverTime: Math.floor(Date.now() / 1_000),
    chains: [
      {
        chainId: 31_337,
        contracts: {
          settlement: DEVNET.verifyingContract,
          conditionalTokens: `0x${'c1'.repeat(20)}`,
          stablecoin: `0x${'c2'.repeat(20)}`,
        },
        stablecoin: { symbol: 'USDC', decimals: 6, address: `0x${'c2'.repeat(20)}` },
        signatures: { stablecoinPermit: { domain: { name: 'USD Coin', version: '1' } } },
      },
    ],
  }
  const { received, url } = await scripted(t, [{ status: 500, body: {} }, { body: config }])
  const client = createClient({ url, retries: 0, signer: ann.key })
  assert.equal((await failure(client.config())).code, 'UNEXPECTED_ANSWER')
  const intent = {
    marketId: MARKET,
    side: 'buy',
    outcome: 'YES',
    price: '0.000001',
    size: 1,
  } as const
  const submissions = await Promise.all([
    client.orders.sign({ ...intent, ttlSeconds: 100 }),
    client.orders.sign({ ...intent, ttlSeconds: 100 }),
  ])
  assert.equal(received.length, 2)
  assert.notEqual(submissions[0].order.nonce, submissions[1].order.nonce)
  await client.config({ fresh: true })
  assert.equal(received.length, 3)
})

test('creating a client with a missing or invalid URL fails with an error that names the field url', () => {
  for (const [url, code] of [
    [undefined, 'MISSING_FIELD'],
    ['', 'INVALID_FIELD'],
    ['127.0.0.1:8080', 'INVALID_FIELD'],
  ] as const) {
    assert.throws(
      () => createClient({ url: url as string }),
      (error) =>
        error instanceof SibylError &&
        error.code === code &&
        error.field === 'url' &&
        /^url must be the address of an exchange, such as 'http:/.test(error.message),
      String(url),
    )
  }
})

test('signing an order needs a signer, and reads the signing domain from the exchange only if none is given', async (t) => {
  const { client } = await scripted(t, [{}])
  const intent = {
    marketId: MARKET,
    side: 'buy',
    outcome: 'YES',
    price: '0.000001',
    size: 1,
  } as const
  const error = await failure(client.orders.place({ ...intent, ttlSeconds: 100 }))
  assert.deepEqual([error.code, error.field, error.attempts], ['MISSING_FIELD', 'signer', 0])
  assert.equal((await failure(client.orders.list())).field, 'signer')

  const pinned = { chainId: 1, verifyingContract: `0x${'12'.repeat(20)}` as Address }
  const other = await scripted(t, [{}], { signer: ann.key, domain: pinned })
  await other.client.orders.place({ ...intent, ttlSeconds: 100 })
  assert.deepEqual(
    other.received.map(({ path }) => path),
    ['/api/v1/orders'],
  )
})

test('after writing to a market, the client requires later reads of that market to include the write', async (t) => {
  const book = { marketId: MARKET, bids: [], asks: [], lastUpdate: 0, seq: 9 }
  const cancelled = { status: 'cancelled', orderHash: HASH, marketId: MARKET, seq: 9 }
  const late = { status: 503, body: { error: 'not yet', code: 'SEQ_NOT_REACHED' } }
  const { client, received } = await scripted(
    t,
    [
      { body: book },
      { body: { ...ACCEPTED, marketId: MARKET, seq: 12 } },
      { body: cancelled },
      { body: book },
      { body: { trades: [] } },
      { body: book },
      late,
      { body: book },
    ],
    { retries: 0 },
  )
  const other = `0x${'ef'.repeat(32)}`
  await client.orderbook(MARKET)
  await client.orders.submit(await signedOrder(MARKET))
  await client.orders.cancel({ orderHash: HASH, marketId: MARKET, side: 'buy' })
  await client.orderbook(MARKET.toUpperCase().replace('0X', '0x'), 'YES')
  await client.trades(MARKET)
  await client.orderbook(other)
  await assert.rejects(client.orderbook(MARKET), { code: 'SEQ_NOT_REACHED' })
  await client.orderbook(MARKET)
  assert.deepEqual(
    received.filter(({ method }) => method === 'GET').map(({ path }) => path.split('?')[1] ?? ''),
    ['', 'outcome=YES&minSeq=12', 'minSeq=12', '', 'minSeq=12', ''],
  )
})
