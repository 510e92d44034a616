import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import Type from 'typebox'
import { openapiDocument } from '#http/openapi.ts'
import { route, sseRoute, upgradeRoute } from '#http/route.ts'
import { safeInteger, uint64 } from '#http/schemas.ts'
import { closed, startTestFront } from './front-fixture.ts'

type Operation = {
  parameters: { name: string; in: string; required: boolean; schema: object }[]
  requestBody?: { content: Record<string, { schema: { properties: Record<string, unknown> } }> }
  responses: Record<string, { content?: Record<string, { examples?: object }> }>
  security?: object[]
}
type Document = {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, unknown> }
}

test('the API document of a running front is valid OpenAPI 3.1', async (t) => {
  const { url } = await startTestFront(t, {}, { routes: [stream, socket] })
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  const result = await new Validator().validate(document as never)
  assert.deepEqual(result.errors ?? [], [])
  assert.ok(result.valid)
  assert.equal(document.openapi, '3.1.0')
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/echo/{marketId}']) {
    assert.ok(document.paths[path]?.get, path)
  }
  assert.ok(document.paths['/orders']?.post)
  assert.ok(document.paths['/orders/{hash}']?.delete)
  assert.ok(document.paths['/events']?.get?.responses['200']?.content?.['text/event-stream'])
  assert.ok(document.paths['/socket']?.get?.responses['101'])
  assert.equal(document.paths['/docs/show.js'], undefined)
})

test('the examples in the API document are generated anew at each request', async (t) => {
  let made = 0
  const liveExamples = async () => {
    made++
    return { 'post-orders': { live: { summary: `example ${made}`, value: {} } } }
  }
  const { url } = await startTestFront(t, {}, { liveExamples })
  type Shown = { examples?: Record<string, { summary?: string }> }
  const read = async (): Promise<string | undefined> => {
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
    const body = document.paths['/orders']?.post?.requestBody?.content['application/json']
    return (body as Shown | undefined)?.examples?.live?.summary
  }
  assert.deepEqual([await read(), await read()], ['example 1', 'example 2'])
})

const stream = sseRoute({
  kind: 'sse',
  method: 'GET',
  path: '/events',
  auth: 'public',
  cost: 'read',
  summary: 'Events',
  event: Type.Object({ price: Type.Integer() }),
  open: () => undefined,
})

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

const order = Type.Object({ nonce: uint64(), price: safeInteger() }, { ...closed, title: 'Order' })
const described = route({
  method: 'POST',
  path: '/api/v1/orders/{n}',
  auth: 'write',
  cost: 'write',
  summary: 'Place an order',
  params: Type.Object({ n: safeInteger({ max: 9 }) }, closed),
  body: Type.Object({ order, again: Type.Optional(order) }, closed),
  responses: { 200: Type.Object({ order }) },
  errors: ['MARKET_CLOSED', 'ORDER_CLOSED'],
  handle: () => ({ status: 200, raw: '' }),
})

test('the API document lists the errors of each route, each with an example', async () => {
  const document = (await openapiDocument({ title: 'T', version: '1' }, [
    described,
  ])) as unknown as Document
  const operation = document.paths['/api/v1/orders/{n}']?.post
  assert.ok(operation)
  const examples = operation.responses['409']?.content?.['application/json']?.examples
  assert.deepEqual(Object.keys(examples ?? {}), ['MARKET_CLOSED', 'ORDER_CLOSED'])
  assert.deepEqual(Object.keys(operation.responses).sort(), [
    '200',
    '400',
    '401',
    '408',
    '409',
    '413',
    '415',
    '429',
    '500',
    '503',
  ])
  assert.deepEqual(operation.security, [{ bearer: [] }, {}])
})

test('the API document defines each titled schema once, and writes scalar types inline', async () => {
  const document = (await openapiDocument({ title: 'T', version: '1' }, [
    described,
  ])) as unknown as Document
  const operation = document.paths['/api/v1/orders/{n}']?.post
  assert.deepEqual(operation?.parameters[0], {
    name: 'n',
    in: 'path',
    required: true,
    schema: { type: 'integer', minimum: 0, maximum: 9 },
  })
  const body = operation?.requestBody?.content['application/json']?.schema
  assert.deepEqual(body?.properties.order, { $ref: '#/components/schemas/Order' })
  const listed = document.components.schemas.Order as { properties: Record<string, object> }
  assert.deepEqual(listed.properties.nonce, {
    anyOf: [
      { type: 'integer', format: 'uint64', minimum: 0 },
      { type: 'string', pattern: '^(0|[1-9][0-9]{0,19})$' },
    ],
  })
})

test('the API document cannot be generated if two different schemas have the same title', async () => {
  const other = route({
    method: 'GET',
    path: '/x',
    auth: 'public',
    cost: 'read',
    summary: 'x',
    responses: { 200: Type.Object({ a: Type.String() }, { title: 'Order' }) },
    handle: () => ({ status: 200, raw: '' }),
  })
  await assert.rejects(openapiDocument({ title: 'T', version: '1' }, [described, other]), /Order/)
})
