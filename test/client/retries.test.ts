/**
 * Tests when the SDK retries a request, and after which pause. The tests use no sockets, because the mocked timers
 * would also affect the HTTP library.
 */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ClientOptions, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { ERRORS } from '#http/errors.ts'

type Said = { status?: number; body?: unknown; headers?: Record<string, string> }

const MARKETS = { markets: [], nextCursor: null }

function refusal(code: string, status: number, retryAfterSec: number): Said {
  return { status, body: { error: 'no', code }, headers: { 'retry-after': String(retryAfterSec) } }
}

/** Returns a client whose server sends the scripted answers in order, and repeats the last one. */
function scripted(script: Said[], options: Partial<ClientOptions> = {}) {
  let sent = 0
  const answer = async () => {
    const said = script[Math.min(++sent, script.length) - 1] ?? {}
    return Response.json(said.body ?? MARKETS, {
      status: said.status ?? 200,
      headers: said.headers ?? {},
    })
  }
  const how = { url: 'http://exchange', backoffMs: 1, fetch: answer, ...options }
  return { client: createClient(how), sent: () => sent }
}

/** Makes every pause end immediately, and records its length. */
function pausesOf(t: TestContext): number[] {
  const pauses: number[] = []
  t.mock.method(globalThis, 'setTimeout', (pass: () => void, ms: number) => {
    pauses.push(ms)
    setImmediate(pass)
  })
  return pauses
}

async function failure(promise: Promise<unknown>): Promise<SibylError> {
  const error = await promise.then(
    () => assert.fail('it did not fail'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SibylError, String(error))
  return error
}

test('a request that the exchange refuses temporarily is retried after the requested pause', async (t) => {
  const pauses = pausesOf(t)
  const passing = Object.entries(ERRORS).filter(([, { retryAfterSec }]) => retryAfterSec)
  assert.ok(passing.length >= 7)
  for (const [code, { status, retryAfterSec = 0 }] of passing) {
    const asked = refusal(code, status, retryAfterSec)
    const { client, sent } = scripted([asked, asked, {}])
    pauses.length = 0
    if (retryAfterSec > 30) {
      const error = await failure(client.markets())
      assert.deepEqual([error.code, error.attempts, pauses], [code, 1, []])
      continue
    }
    await client.markets()
    assert.equal(sent(), 3, code)
    assert.deepEqual(pauses, [retryAfterSec * 1_000, retryAfterSec * 1_000], code)
  }
})

test('the client’s retry pauses double up to five seconds, and up to half of each is random', async (t) => {
  const pauses = pausesOf(t)
  const { client } = scripted([{ status: 502 }], { retries: 8, backoffMs: 100 })
  assert.equal((await failure(client.markets())).attempts, 9)
  for (const [at, most] of [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries()) {
    const ms = pauses[at] ?? 0
    assert.ok(ms >= most / 2 && ms <= most, `${ms} of ${most}`)
  }
  // If the server requests a shorter pause than the client's own, the client still waits for its own.
  pauses.length = 0
  const hurried = scripted([refusal('OVERLOADED', 503, 0)], { retries: 1, backoffMs: 1_000 })
  await failure(hurried.client.markets())
  assert.ok((pauses[0] ?? 0) >= 500, String(pauses))
})
