import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brokenMessages, brokenOperations, contractOf, type Json } from './breaking-changes.ts'

const order = {
  type: 'object',
  required: ['price'],
  additionalProperties: false,
  properties: {
    price: { type: 'integer', minimum: 1, maximum: 999_999 },
    side: { type: 'string', enum: ['buy', 'sell'] },
    id: { anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^[0-9]+$' }] },
  },
}
const placed = {
  type: 'object',
  required: ['hash', 'status'],
  properties: {
    hash: { type: 'string' },
    status: { type: 'string', enum: ['accepted', 'expired'] },
    next: { $ref: '#/components/schemas/Placed' },
    fills: { type: 'array', items: { type: 'object', properties: { size: { type: 'integer' } } } },
  },
}
const document = {
  info: { version: '1.0' },
  paths: {
    '/orders': {
      post: {
        operationId: 'placeOrder',
        security: [{ bearer: [] }, {}],
        parameters: [{ name: 'market', in: 'query', required: false, schema: { type: 'string' } }],
        requestBody: { required: true, content: { 'application/json': { schema: order } } },
        responses: {
          200: {
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Placed' } } },
          },
        },
      },
    },
  },
  components: {
    schemas: { Placed: placed },
    messages: {
      'subscribe.book': {
        payload: {
          type: 'object',
          required: ['op'],
          properties: { op: { const: 'subscribe' }, maxHz: { type: 'integer', maximum: 20 } },
        },
      },
      hello: {
        payload: {
          type: 'object',
          required: ['type', 'session'],
          properties: { type: { const: 'hello' }, session: { type: 'string' } },
        },
      },
    },
  },
}

/**
 * Returns the document with one change. `way` is a path of keys, separated by `|`. If the value is `undefined`, the
 * last key is removed.
 */
function changed(way: string, value: unknown): Json {
  const copy = structuredClone(document) as unknown as Record<string, never>
  const steps = way.split('|')
  const last = steps.pop()!
  let at: Record<string, never> = copy
  for (const step of steps) {
    assert.ok(at[step] !== undefined, `${way}: there is no ${step}`)
    at = at[step] as Record<string, never>
  }
  if (value === undefined) delete at[last]
  else at[last] = value as never
  return copy
}

const POST = 'paths|/orders|post'
const BODY = `${POST}|requestBody|content|application/json|schema`
const PLACED = 'components|schemas|Placed'

test('the comparison of two API documents reports each change that breaks clients, in words', () => {
  for (const [way, value, sentence] of [
    ['paths|/orders', undefined, 'POST /orders is gone'],
    [`${POST}|operationId`, 'postOrder', 'operationId placeOrder is now postOrder'],
    [`${POST}|security`, [{ bearer: [] }], 'it needs a token now'],
    [`${POST}|parameters`, [], 'the parameter query market is gone'],
    [`${POST}|parameters|0|required`, true, 'query market is required now'],
    [
      `${POST}|parameters|1`,
      { name: 'x', in: 'query', required: true },
      'query x is new and required',
    ],
    [`${POST}|responses|200`, undefined, 'it does not answer 200 any more'],
    [`${POST}|responses|200|content`, {}, '200: application/json is gone'],
    [`${BODY}|required`, ['price', 'side'], 'body.side is required now'],
    [`${BODY}|properties|side`, undefined, 'body.side is gone'],
    [`${BODY}|properties|side|enum`, ['buy'], 'body.side: "sell" is gone'],
    [`${BODY}|properties|price|type`, 'string', 'body.price was integer and is string'],
    [`${BODY}|properties|price|maximum`, 99, 'body.price: maximum is 99, it was 999999'],
    [`${BODY}|properties|price|minimum`, 10, 'body.price: minimum is 10, it was 1'],
    [`${BODY}|properties|id|anyOf`, [{ type: 'integer' }], 'body.id was string and is integer'],
    [`${PLACED}|properties|hash`, undefined, '200.hash is gone'],
    [`${PLACED}|required`, ['hash'], '200.status may be missing now'],
    [`${PLACED}|properties|status|enum`, ['accepted'], '200.status: "expired" is gone'],
    [`${PLACED}|properties|fills|items|properties`, {}, '200.fills[].size is gone'],
    [
      `${PLACED}|properties|hash|type`,
      ['string', 'null'],
      '200.hash was string and is string or null',
    ],
  ] as const) {
    const broken = brokenOperations({ before: document, after: changed(way, value) })
    assert.ok(
      broken.some((one) => one.endsWith(sentence)),
      `${way}: ${JSON.stringify(broken)}`,
    )
  }
})

test('the comparison of two stream documents reports each change that breaks clients, in words', () => {
  const messages = 'components|messages'
  for (const [way, value, sentence] of [
    [`${messages}|hello`, undefined, 'the message hello is gone'],
    [`${messages}|hello|payload|properties|session`, undefined, 'hello.session is gone'],
    [
      `${messages}|subscribe.book|payload|required`,
      ['op', 'maxHz'],
      'subscribe.book.maxHz is required now',
    ],
    [
      `${messages}|subscribe.book|payload|properties|maxHz|maximum`,
      10,
      'subscribe.book.maxHz: maximum is 10, it was 20',
    ],
  ] as const) {
    assert.deepEqual(brokenMessages({ before: document, after: changed(way, value) }), [sentence])
  }
})

test('added fields and widened inputs of an API document are not reported as breaking changes', () => {
  for (const [way, value] of [
    [`${POST}|summary`, 'Another'],
    ['paths|/markets', { get: { operationId: 'listMarkets' } }],
    [`${POST}|parameters|1`, { name: 'x', in: 'query', required: false }],
    [`${POST}|security`, []],
    [`${BODY}|properties|size`, { type: 'integer' }],
    [`${BODY}|required`, []],
    [`${BODY}|properties|price|maximum`, 9_999_999],
    [`${BODY}|properties|side|enum`, ['buy', 'sell', 'both']],
    [`${BODY}|properties|price`, { anyOf: [order.properties.price, { type: 'string' }] }],
    [`${PLACED}|properties|more`, { type: 'string' }],
    [`${PLACED}|properties|status|enum`, ['accepted', 'expired', 'cancelled']],
    [`${PLACED}|properties|hash|maxLength`, 66],
  ] as const) {
    const after = changed(way, value)
    assert.deepEqual(brokenOperations({ before: document, after }), [], way)
    assert.deepEqual(brokenMessages({ before: document, after }), [], way)
  }
})

test('the comparison of two API documents ignores description texts, but not a property named “description”', () => {
  const worded = {
    info: { title: 'T', version: '1.0', description: 'long' },
    tags: [{ name: 'a' }],
    paths: { '/a': { get: { summary: 's', responses: { 200: { description: 'd' } } } } },
    components: { schemas: { A: { title: 'A', properties: { description: { type: 'string' } } } } },
  }
  assert.deepEqual(contractOf(worded), {
    info: { version: '1.0' },
    paths: { '/a': { get: { responses: { 200: {} } } } },
    components: { schemas: { A: { properties: { description: { type: 'string' } } } } },
  })
})
