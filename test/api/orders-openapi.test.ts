import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Errors } from 'typebox/value'
import { listMarkets } from '#api/markets/list-markets.ts'
import { listTrades } from '#api/markets/list-trades.ts'
import { orderbook } from '#api/markets/orderbook.ts'
import { cancelOrder } from '#api/orders/cancel-order.ts'
import { cancelOrders } from '#api/orders/cancel-orders.ts'
import { listOrders, listUserOrders } from '#api/orders/list-orders.ts'
import { placeOrder } from '#api/orders/place-order.ts'
import { placeOrders } from '#api/orders/place-orders.ts'
import { validateOrder } from '#api/orders/validate-order.ts'
import { type ConfigFacts, config } from '#api/service/config.ts'
import type { Address } from '#domain/ids.ts'
import { openapiDocument } from '#http/openapi.ts'
import { systemClock } from '#runtime/clock.ts'
import { STREAM_SETTINGS } from '../stream/stream-fixture.ts'

type Json = Record<string, unknown>
type Content = { schema: Json; examples?: Record<string, { value: unknown }> }
type Operation = {
  requestBody?: { content: Record<string, Content> }
  responses: Record<string, { headers?: Json; content?: Record<string, Content> }>
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}

/** Nothing behind the routes is called: only their declarations are read. */
const behind = {} as never
const CONTRACT = `0x${'5f'.repeat(20)}` as Address
const facts: ConfigFacts = {
  settleSec: 900,
  name: 'Sibyl',
  version: '1',
  bearer: false,
  singleUse: true,
  deadlineMs: 1_000,
  risk: {
    funds: 'off',
    minNotional: 0,
    pendingTradesMax: 1_000,
    cooldownSeconds: 0,
    cooldownSecondsMax: 3_600,
  },
  rates: undefined,
  stream: { ...STREAM_SETTINGS, heldOrdersMax: 10, malformedMax: 100, windowMs: 10_000 },
  relayer: undefined,
  chains: [
    {
      chainId: 31_337,
      role: 'test',
      contracts: {
        settlement: CONTRACT,
        conditionalTokens: CONTRACT,
        stablecoin: CONTRACT,
        marketFactory: CONTRACT,
        multicall: CONTRACT,
        oracle: CONTRACT,
      },
      stablecoin: {
        symbol: 'USDC',
        decimals: 6,
        address: CONTRACT,
        domainName: 'USD Coin',
        domainVersion: '1',
      },
    },
  ],
}
const document = (await openapiDocument({ title: 'Sibyl', version: '1' }, [
  placeOrder(behind),
  placeOrders(behind),
  validateOrder(behind),
  listOrders(behind),
  listUserOrders(behind),
  cancelOrder(behind, behind),
  cancelOrders(behind),
  orderbook(behind),
  listMarkets(behind),
  listTrades(behind),
  config(facts, systemClock),
])) as unknown as Document

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
)

/** Puts the listed schemas where they are referred to. */
function resolved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(resolved)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref } = schema as { $ref?: string }
  if ($ref !== undefined) {
    const name = $ref.replace('#/components/schemas/', '')
    assert.ok(document.components.schemas[name], `${$ref} is in the document`)
    return resolved(document.components.schemas[name])
  }
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, resolved(part)]))
}

test('the document of the order endpoints is valid and contains all of them', async () => {
  const result = await new Validator().validate(structuredClone(document) as never)
  assert.deepEqual(result.errors ?? [], [])
  assert.deepEqual(operations.map(([name]) => name).sort(), [
    'delete /api/v1/orders',
    'delete /api/v1/orders/{hash}',
    'get /api/v1/config',
    'get /api/v1/markets',
    'get /api/v1/orderbook/{marketId}',
    'get /api/v1/orders',
    'get /api/v1/trades/{marketId}',
    'get /api/v1/users/{address}/orders',
    'post /api/v1/orders',
    'post /api/v1/orders/batch',
    'post /api/v1/orders/validate',
  ])
})

test('every answer, every error and every body has an example that fits its schema', () => {
  let count = 0
  for (const [name, { requestBody, responses }] of operations) {
    const contents: [string, Record<string, Content> | undefined][] = Object.entries(responses)
      .filter(([status]) => status !== '304')
      .map(([status, { content }]) => [`${name} ${status}`, content])
    if (requestBody !== undefined) contents.push([`${name} body`, requestBody.content])
    for (const [place, content] of contents) {
      const json = content?.['application/json']
      assert.ok(json !== undefined, `${place} is JSON`)
      const examples = Object.entries(json.examples ?? {})
      assert.ok(examples.length > 0, `${place} has an example`)
      const schema = resolved(json.schema) as Json
      for (const [title, { value }] of examples) {
        const [flaw] = Errors(schema as never, JSON.parse(JSON.stringify(value)))
        assert.equal(flaw, undefined, `${place}, ${title}: ${JSON.stringify(flaw)}`)
        count++
      }
    }
  }
  assert.ok(count > 100, `${count} examples`)
})

test('an example that does not fit its schema is found', () => {
  const { schema } =
    document.paths['/api/v1/orders']!.post!.responses['200']!.content!['application/json']!
  assert.equal([...Errors(resolved(schema) as never, { orderHash: 1 })].length > 0, true)
})

test('errors name their fields and the time after which to retry', () => {
  const { responses } = document.paths['/api/v1/orders']!.post!
  const examples = (status: string) => responses[status]?.content?.['application/json']?.examples
  assert.deepEqual(examples('400')?.PRICE_OUT_OF_RANGE?.value, {
    error: 'price must be between 1 and 999999',
    code: 'PRICE_OUT_OF_RANGE',
    field: 'order.price',
  })
  assert.deepEqual(Object.keys(examples('409') ?? {}), [
    'MARKET_CLOSED',
    'ORDER_CLOSED',
    'ORDER_NONCE_TOO_LOW',
  ])
  assert.ok(examples('401')?.UNAUTHORIZED_TOKEN_EXPIRED)
  assert.ok(responses['503']?.headers?.['Retry-After'])
  const missing = document.paths['/api/v1/orders']?.get?.responses['400']
  assert.deepEqual(missing?.content?.['application/json']?.examples?.MISSING_FIELD?.value, {
    error: 'trader is required',
    code: 'MISSING_FIELD',
    field: 'trader',
  })
})
