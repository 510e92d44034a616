import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openapiDocument } from '#http/openapi.ts'
import { postmanCollection } from '#http/postman.ts'
import { testRoutes } from './front-fixture.ts'

type Request = {
  method: string
  auth?: { type: string }
  url: {
    raw: string
    path: string[]
    query: { key: string; disabled?: boolean }[]
    variable: { key: string }[]
  }
  body?: { mode: string; raw: string }
}
type Collection = {
  info: { name: string; schema: string }
  item: { name: string; item: { name: string; request: Request }[] }[]
}

const routes = testRoutes({ wait: async () => undefined })
const info = { title: 'Test', version: '1.0', tags: [{ name: 'empty', description: 'Nothing' }] }
const collection = postmanCollection(await openapiDocument(info, routes)) as Collection
const requests = new Map(
  collection.item.flatMap(({ item }) => item.map(({ name, request }) => [name, request])),
)

test('the Postman collection has a folder for each tag and no empty folder', () => {
  assert.match(collection.info.schema, /v2\.1\.0/)
  assert.equal(collection.info.name, 'Test API 1.0')
  assert.ok(!collection.item.some(({ name }) => name === 'empty'))
  assert.equal(requests.size, routes.filter(({ hidden }) => hidden !== true).length)
})

test('in the Postman collection, path parameters are variables, and optional query parameters are disabled', () => {
  const echo = requests.get('get-echo-marketId')
  assert.deepEqual(echo?.url.path, ['echo', ':marketId'])
  assert.deepEqual(
    echo?.url.variable.map(({ key }) => key),
    ['marketId'],
  )
  assert.ok(echo?.url.query.every(({ disabled }) => disabled === true))
  const needs = requests.get('get-needs')
  assert.equal(needs?.url.raw, '{{baseUrl}}/needs?trader=')
  assert.equal(needs?.url.query[0]?.disabled, undefined)
})

test('in the Postman collection, reads have no token, and writes inherit the token and have a JSON body', () => {
  assert.equal(requests.get('get-needs')?.auth?.type, 'noauth')
  const post = requests.get('post-orders')
  assert.equal(post?.auth, undefined)
  assert.equal(post?.body?.mode, 'raw')
  assert.doesNotThrow(() => JSON.parse(post?.body?.raw ?? ''))
})
