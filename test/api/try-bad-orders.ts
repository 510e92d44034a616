/** Tests that invalid orders are refused, on an exchange with `BAD_ORDER_MARKETS`. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { OrderSubmission } from '#client/order-submission.ts'
import type { Address } from '#domain/ids.ts'
import type { Exchange } from '../support/exchange.ts'
import { marketNumbered, type SeededMarket } from '../support/seeded-markets.ts'
import { DEVNET, signedOrder, traderNumbered } from '../support/signed-orders.ts'
import { signedPermit } from '../support/signed-permits.ts'

const open = marketNumbered(0xa0)
const { id: MARKET } = open
const nowSec = Math.floor(Date.now() / 1_000)
const expired = marketNumbered(0xa1, { expiration: nowSec - 5 })
const resolved = marketNumbered(0xa2)
const unknown = marketNumbered(0xa3)
export const BAD_ORDER_MARKETS: readonly SeededMarket[] = [
  { market: open },
  { market: expired },
  { market: resolved, closed: 'resolved' },
]

type Expected = { readonly status: number; readonly code: string; readonly field?: string }
type Case = Expected & {
  /** Body of a submission as text, because JavaScript has no values for some invalid JSON. */
  readonly body: string
  readonly says?: RegExp
}

const good = await signedOrder(MARKET)

/** Returns the submission as JSON, with the value at `path` replaced by `text`. */
function written(path: string, text: string, submission: OrderSubmission = good): string {
  const [first = '', second] = path.split('.')
  const value =
    second === undefined ? MARK : { ...(submission[first as 'order'] ?? {}), [second]: MARK }
  return JSON.stringify({ ...submission, [first]: value }).replace(`"${MARK}"`, text)
}
const MARK = '@@'

const permit = await signedPermit(traderNumbered(11), { value: 1_000_000n })
const badPermit = (field: string): Expected => ({ status: 400, code: 'INVALID_PERMIT', field })
const withPermit = { ...good, permitSignature: permit }

const invalid = (field: string): Expected => ({ status: 400, code: 'INVALID_FIELD', field })
const missing = (field: string): Expected => ({ status: 400, code: 'MISSING_FIELD', field })
const price: Expected = { status: 400, code: 'PRICE_OUT_OF_RANGE', field: 'order.price' }
const size: Expected = { status: 400, code: 'SIZE_NOT_POSITIVE', field: 'order.size' }
const soon: Expected = { status: 400, code: 'EXPIRATION_TOO_SOON', field: 'order.expiration' }
const signature: Expected = { status: 400, code: 'INVALID_SIGNATURE', field: 'signature' }

const post = (submission: OrderSubmission): string => JSON.stringify(submission)
/** Returns the text with one hex digit changed. */
function otherDigit(text: string, at: number): string {
  return `${text.slice(0, at)}${text[at] === '0' ? '1' : '0'}${text.slice(at + 1)}`
}

const last = (text: string, to: string): string => text.slice(0, -to.length) + to
const inSeconds = (seconds: number): string => String(Math.floor(Date.now() / 1_000) + seconds)

/** The cases are functions, because some depend on the current time. */
const cases: Record<string, () => Case | Promise<Case>> = {
  'price 0': () => ({ ...price, body: written('order.price', '0') }),
  'price 1000000': () => ({ ...price, body: written('order.price', '1000000') }),
  'price 1000000 as text': () => ({ ...price, body: written('order.price', '"1000000"') }),
  'a negative price': () => ({ ...price, body: written('order.price', '-1') }),
  'price 1.5': () => ({ ...invalid('order.price'), body: written('order.price', '1.5') }),
  'price 500000.0': () => ({ ...invalid('order.price'), body: written('order.price', '500000.0') }),
  'price 5e5': () => ({ ...invalid('order.price'), body: written('order.price', '5e5') }),
  'price "abc"': () => ({ ...invalid('order.price'), body: written('order.price', '"abc"') }),
  'price ""': () => ({ ...invalid('order.price'), body: written('order.price', '""') }),
  'price null': () => ({ ...invalid('order.price'), body: written('order.price', 'null') }),
  'price true': () => ({ ...invalid('order.price'), body: written('order.price', 'true') }),
  'price beyond 2^53': () => ({
    ...invalid('order.price'),
    body: written('order.price', '9007199254740993'),
  }),
  'no price': () => ({
    ...missing('order.price'),
    body: JSON.stringify({ ...good, order: { ...good.order, price: undefined } }),
  }),
  'size 0': () => ({ ...size, body: written('order.size', '0') }),
  'a negative size': () => ({ ...size, body: written('order.size', '-5') }),
  'size 1.5': () => ({ ...invalid('order.size'), body: written('order.size', '1.5') }),
  'size above the limit': () => ({
    ...invalid('order.size'),
    says: /9007199254740991/,
    body: written('order.size', '9007199254740992'),
  }),
  'size above the limit as text': () => ({
    ...invalid('order.size'),
    body: written('order.size', '"9007199254740992"'),
  }),
  'expiration in 59 s': async () => ({
    ...soon,
    body: post(await signedOrder(MARKET, { expiration: inSeconds(59) })),
  }),
  'expiration in the past': async () => ({
    ...soon,
    body: post(await signedOrder(MARKET, { expiration: inSeconds(-1_000) })),
  }),
  'expiration 0': async () => ({
    ...soon,
    body: post(await signedOrder(MARKET, { expiration: '0' })),
  }),
  'expiration beyond 2^64': () => ({
    ...invalid('order.expiration'),
    body: written('order.expiration', '18446744073709551616'),
  }),
  'side 2': () => ({ ...invalid('order.side'), body: written('order.side', '2') }),
  'side "buy"': () => ({ ...invalid('order.side'), body: written('order.side', '"buy"') }),
  'outcome 2': () => ({ ...invalid('order.outcome'), body: written('order.outcome', '2') }),
  'outcome -1': () => ({ ...invalid('order.outcome'), body: written('order.outcome', '-1') }),
  'nonce beyond 2^64 as a number': () => ({
    ...invalid('order.nonce'),
    body: written('order.nonce', '18446744073709551616'),
  }),
  'nonce beyond 2^64 as text': () => ({
    ...invalid('order.nonce'),
    body: written('order.nonce', '"18446744073709551616"'),
  }),
  'a negative nonce': () => ({ ...invalid('order.nonce'), body: written('order.nonce', '-1') }),
  'a nonce with a leading zero': () => ({
    ...invalid('order.nonce'),
    body: written('order.nonce', '"007"'),
  }),
  'a fee recipient': async () => ({
    ...invalid('order.makerFeeRecipient'),
    says: /zero address/,
    body: post(await signedOrder(MARKET, { makerFeeRecipient: `0x${'1'.repeat(40)}` })),
  }),
  'a market id of 31 bytes': () => ({
    ...invalid('order.marketId'),
    body: written('order.marketId', `"0x${'1'.repeat(62)}"`),
  }),
  'a trader without 0x': () => ({
    ...invalid('order.trader'),
    body: written('order.trader', `"${'1'.repeat(40)}"`),
  }),
  'a short signature': () => ({
    ...signature,
    says: /65 bytes\), not 128 digits/,
    body: post({ ...good, signature: good.signature.slice(0, -2) }),
  }),
  'a long signature': () => ({
    ...signature,
    says: /not 132 digits/,
    body: post({ ...good, signature: `${good.signature}00` }),
  }),
  'a very long signature': () => ({
    ...signature,
    body: post({ ...good, signature: `${good.signature}${'00'.repeat(1_500)}` }),
  }),
  'an empty signature': () => ({ ...signature, body: post({ ...good, signature: '' }) }),
  'a signature that is not hex': () => ({
    ...signature,
    body: post({ ...good, signature: last(good.signature, 'zz') }),
  }),
  // The low byte of the character U+0130 is the code of the digit 0, so Node's hex decoder alone would accept the
  // character. In lower case U+0130 becomes two characters, which changes the length of the text.
  'a signature with a character whose low byte is a digit': () => ({
    ...signature,
    body: post({ ...good, signature: good.signature.replace(/(?<=0x.*)0/, '\u0130') }),
  }),
  'a signature with v 29': () => ({
    ...signature,
    says: /v must be 0, 1, 27 or 28, not 29/,
    body: post({ ...good, signature: last(good.signature, '1d') }),
  }),
  'a tampered signature': () => ({
    ...signature,
    says: /the server computed the digest 0x[0-9a-f]{64}/,
    body: post({
      ...good,
      signature: otherDigit(good.signature, 20),
    }),
  }),
  'a signature of another price': () => ({
    ...signature,
    says: /the recovered signer is 0x[0-9a-fA-F]{40}, not 0x/,
    body: written('order.price', '500001'),
  }),
  'a signature for another chain': async () => ({
    ...signature,
    body: post(await signedOrder(MARKET, {}, { domain: { ...DEVNET, chainId: 137 } })),
  }),
  'a signature for another contract': async () => ({
    ...signature,
    body: post(
      await signedOrder(
        MARKET,
        {},
        { domain: { ...DEVNET, verifyingContract: `0x${'9'.repeat(40)}` as Address } },
      ),
    ),
  }),
  'a wrong trader': async () => ({
    ...signature,
    says: /the recovered signer is 0x\w{40}, not 0x/,
    body: post(await signedOrder(MARKET, {}, { claims: traderNumbered(12).address })),
  }),
  'signature as a number': () => ({ ...invalid('signature'), body: written('signature', '1') }),
  'no signature': () => ({ ...missing('signature'), body: JSON.stringify({ order: good.order }) }),
  'no order': () => ({ ...missing('order'), body: JSON.stringify({ signature: '0x' }) }),
  'an order that is an array': () => ({ ...invalid('order'), body: written('order', '[]') }),
  'an unknown market': async () => ({
    status: 404,
    code: 'MARKET_NOT_FOUND',
    field: 'order.marketId',
    body: post(await signedOrder(unknown.id)),
  }),
  'an expired market': async () => ({
    status: 409,
    code: 'MARKET_CLOSED',
    body: post(await signedOrder(expired.id)),
  }),
  'a resolved market': async () => ({
    status: 409,
    code: 'MARKET_CLOSED',
    body: post(await signedOrder(resolved.id)),
  }),
  'an unknown field of the body': () => ({
    ...invalid('note'),
    body: JSON.stringify({ ...good, note: 1 }),
  }),
  'an unknown field of the order': () => ({
    ...invalid('order.tif'),
    body: JSON.stringify({ ...good, order: { ...good.order, tif: 'GTC' } }),
  }),
  'the field __proto__': () => ({
    ...invalid('order.__proto__'),
    body: written('order.price', '500000,"__proto__":{}'),
  }),
  'a permit without its deadline': () => ({
    ...missing('permitSignature.deadline'),
    body: JSON.stringify({ ...good, permitSignature: { ...permit, deadline: undefined } }),
  }),
  'a permit whose r is 31 bytes': () => ({
    ...invalid('permitSignature.r'),
    body: JSON.stringify({ ...good, permitSignature: { ...permit, r: '0x11' } }),
  }),
  'a permit whose value is a number': () => ({
    ...invalid('permitSignature.value'),
    body: written('permitSignature.value', '1000000', withPermit),
  }),
  'a permit whose value is 2^256': () => ({
    ...invalid('permitSignature.value'),
    says: /permitSignature\.value must be an integer from 0 to 2\^256 - 1, as a decimal string/,
    body: JSON.stringify({ ...good, permitSignature: { ...permit, value: String(2n ** 256n) } }),
  }),
  'a permit that is a unit short of what all fills may cost': () => ({
    ...invalid('permitSignature.value'),
    says: /permitSignature\.value must be at least 510000/,
    body: JSON.stringify({ ...good, permitSignature: { ...permit, value: '509999' } }),
  }),
  'a permit with v 26': () => ({
    ...invalid('permitSignature.v'),
    says: /27 or 28/,
    body: written('permitSignature.v', '26', withPermit),
  }),
  'a permit that another account signed': async () => ({
    ...badPermit('permitSignature'),
    says: /the recovered signer is 0x.*, not 0x/,
    body: post({ ...good, permitSignature: await signedPermit(traderNumbered(12)) }),
  }),
  'a permit for another spender': async () => ({
    ...badPermit('permitSignature'),
    body: post({
      ...good,
      permitSignature: await signedPermit(traderNumbered(11), { spender: `0x${'5'.repeat(40)}` }),
    }),
  }),
  'a permit that ends before its order': async () => ({
    ...badPermit('permitSignature.deadline'),
    says: new RegExp(`must be at least ${good.order.expiration}`),
    body: post({
      ...good,
      permitSignature: await signedPermit(traderNumbered(11), {
        deadline: Number(good.order.expiration) - 1,
      }),
    }),
  }),
  'a permit that travels with a sell': async () => ({
    ...badPermit('permitSignature'),
    says: /must be absent in a sell/,
    body: post({ ...(await signedOrder(MARKET, { side: 1 })), permitSignature: permit }),
  }),
  'a permit with an unknown field': () => ({
    ...invalid('permitSignature.owner'),
    body: JSON.stringify({ ...good, permitSignature: { ...permit, owner: good.order.trader } }),
  }),
}

/** Bodies that are refused before an order can be read from them. */
const wholeBodies: Record<string, Case> = {
  'no body': { status: 400, code: 'INVALID_JSON', body: '' },
  'half a body': { status: 400, code: 'INVALID_JSON', body: post(good).slice(0, 100) },
  'a field twice': {
    ...invalid('order.price'),
    says: /more than once/,
    body: written('order.price', '500000,"price":500000'),
  },
  'the order twice': { ...invalid('order'), body: post(good).replace('{', '{"order":{},') },
  'a body of 1 MB': {
    status: 413,
    code: 'BODY_TOO_LARGE',
    body: post({ ...good, signature: 'x'.repeat(1_000_000) }),
  },
}

type Answer = { status: number; body: { error?: string; code?: string; field?: string } }

export async function tryBadOrders(t: TestContext, exchange: Exchange): Promise<void> {
  async function send<Body>(path: string, body: string): Promise<{ status: number; body: Body }> {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${exchange.url}${path}`, { method: 'POST', headers, body })
    return { status: response.status, body: (await response.json()) as Body }
  }

  function check({ status, body }: Answer, expected: Case): void {
    assert.deepEqual(
      { status, code: body.code, field: body.field },
      {
        status: expected.status,
        code: expected.code,
        field: expected.field,
      },
    )
    assert.match(body.error ?? '', expected.says ?? /./)
  }

  for (const [name, make] of Object.entries(cases)) {
    await t.test(name, async () => {
      const expected = await make()
      check(await send('/api/v1/orders', expected.body), expected)

      type Batch = { results: Answer['body'][]; count: number }
      const batch = await send<Batch>('/api/v1/orders/batch', `{"orders":[${expected.body}]}`)
      assert.equal(batch.status, 200)
      check({ status: expected.status, body: batch.body.results[0] ?? {} }, expected)

      type Checked = { valid: boolean; errors: Answer['body'][] }
      const checked = await send<Checked>('/api/v1/orders/validate', expected.body)
      assert.deepEqual([checked.status, checked.body.valid], [200, false])
      const codes = checked.body.errors.map(({ code }) => code)
      assert.ok(codes.includes(expected.code), `${codes} without ${expected.code}`)
    })
  }

  for (const [name, expected] of Object.entries(wholeBodies)) {
    await t.test(name, async () => {
      for (const path of ['/api/v1/orders', '/api/v1/orders/validate']) {
        check(await send(path, expected.body), expected)
      }
    })
  }

  await t.test('a body without the content type application/json is refused', async () => {
    const response = await fetch(`${exchange.url}/api/v1/orders`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: post(good),
    })
    const body = (await response.json()) as Answer['body']
    assert.deepEqual([response.status, body.code], [415, 'UNSUPPORTED_MEDIA_TYPE'])
  })

  await t.test('a batch that is empty, has 101 orders or is not a list is refused', async () => {
    const many = JSON.stringify({ orders: Array.from({ length: 101 }, () => 0) })
    for (const body of ['{"orders":[]}', many, '{"orders":{}}']) {
      check(await send('/api/v1/orders/batch', body), { ...invalid('orders'), body })
    }
    check(await send('/api/v1/orders/batch', '{}'), { ...missing('orders'), body: '' })
  })

  await t.test('wrong parameters of reads and cancels are refused', async () => {
    const hash = `0x${'1'.repeat(64)}`
    const wrong: [string, string, string, string][] = [
      ['GET', '/api/v1/orders', 'MISSING_FIELD', 'trader'],
      ['GET', '/api/v1/orders?trader=0x12', 'INVALID_FIELD', 'trader'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&market=1`, 'INVALID_FIELD', 'market'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&trader=0x`, 'INVALID_FIELD', 'trader'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&side=buy`, 'INVALID_FIELD', 'side'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&limit=0`, 'INVALID_FIELD', 'limit'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&limit=1001`, 'INVALID_FIELD', 'limit'],
      ['GET', `/api/v1/orders?trader=${good.order.trader}&cursor=1`, 'INVALID_FIELD', 'cursor'],
      [
        'GET',
        `/api/v1/orders?trader=${good.order.trader}&cursor=1.${hash}0`,
        'INVALID_FIELD',
        'cursor',
      ],
      ['DELETE', `/api/v1/orders/${hash}`, 'MISSING_FIELD', 'marketId'],
      ['DELETE', `/api/v1/orders/${hash}?marketId=${MARKET}&side=2`, 'INVALID_FIELD', 'side'],
      ['DELETE', `/api/v1/orders/0x12?marketId=${MARKET}`, 'INVALID_FIELD', 'hash'],
    ]
    for (const [method, path, code, field] of wrong) {
      const response = await fetch(`${exchange.url}${path}`, { method })
      const body = (await response.json()) as Answer['body']
      assert.deepEqual([response.status, body.code, body.field], [400, code, field], path)
    }
  })

  await t.test(
    'after many refused orders, a valid order is accepted and is the trader’s only open order',
    async () => {
      const { status, body } = await send<{ status: string }>('/api/v1/orders', post(good))
      assert.deepEqual([status, body.status], [200, 'accepted'])
      const listed = await fetch(`${exchange.url}/api/v1/orders?trader=${good.order.trader}`)
      assert.equal(((await listed.json()) as { count: number }).count, 1)
    },
  )
}
