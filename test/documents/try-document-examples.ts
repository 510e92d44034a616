/** Checks the examples of the OpenAPI document, each against its schema. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Errors } from 'typebox/value'

type Json = Record<string, unknown>
type Content = Record<string, { schema: Json; examples?: Record<string, { value: Json }> }>
/** A body's content and its place: the status of the response, or `body` for the request. */
type Placed = readonly [where: string, content: Content | undefined]
type Operation = {
  requestBody?: { content: Content }
  responses: Record<string, { headers?: Json; content?: Content }>
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}

const WITHOUT_EXAMPLE: ReadonlySet<string> = new Set([
  ...['/healthz', '/readyz', '/openapi.json', '/asyncapi.json', '/postman.json'].map(
    (path) => `get ${path} 200`,
  ),

  'get /api/v1/quick-markets/{asset}/{id}/evidence 200',
  'delete /api/v1/api-keys/{id} body',
])

export async function tryDocumentExamples(t: TestContext, served: object): Promise<void> {
  const document = served as Document

  function resolved(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map(resolved)
    if (typeof schema !== 'object' || schema === null) return schema
    const { $ref } = schema as { $ref?: string }
    if ($ref === undefined) {
      return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, resolved(part)]))
    }
    const name = $ref.replace('#/components/schemas/', '')
    assert.ok(document.components.schemas[name], `${$ref} is in the document`)
    return resolved(document.components.schemas[name])
  }
  const flawOf = (schema: Json, value: unknown) => Errors(resolved(schema) as never, value)[0]

  await t.test('the API document is valid OpenAPI', async () => {
    const result = await new Validator().validate(structuredClone(document) as never)
    assert.deepEqual(result.errors ?? [], [])
  })

  await t.test(
    'each body, answer and error in the API document has examples that fit its schema',
    () => {
      const without: string[] = []
      for (const [path, methods] of Object.entries(document.paths)) {
        for (const [method, { requestBody, responses }] of Object.entries(methods)) {
          const contents = Object.entries(responses).map(
            ([status, { content }]): Placed => [status, content],
          )
          for (const [where, content] of [...contents, ['body', requestBody?.content] as Placed]) {
            const json = content?.['application/json']
            if (json === undefined) continue
            const place = `${method} ${path} ${where}`
            const examples = Object.entries(json.examples ?? {})
            if (examples.length === 0) without.push(place)
            for (const [title, { value }] of examples) {
              const flaw = flawOf(json.schema, value)
              assert.equal(flaw, undefined, `${place}, ${title}: ${JSON.stringify(flaw)}`)
              const failed = Number(where) >= 400 && path.startsWith('/api/v1/relayer/')
              if (failed) assert.equal(value.success, false, place)
            }
          }
        }
      }
      assert.deepEqual(without.toSorted(), [...WITHOUT_EXAMPLE].toSorted())
      const { schema } =
        document.paths['/api/v1/orders']!.post!.responses['200']!.content!['application/json']!
      assert.notEqual(flawOf(schema, { orderHash: 1 }), undefined, 'a flaw is found')
    },
  )

  await t.test(
    'example errors in the API document name the field, and the time after which to retry',
    () => {
      const { post, get } = document.paths['/api/v1/orders']!
      const examples = (status: string, of = post!) =>
        of.responses[status]?.content?.['application/json']?.examples
      assert.deepEqual(examples('400')?.PRICE_OUT_OF_RANGE?.value, {
        error: 'price must be between 1 and 999999 millionths of a dollar',
        code: 'PRICE_OUT_OF_RANGE',
        field: 'order.price',
      })
      assert.deepEqual(Object.keys(examples('409') ?? {}), [
        'MARKET_CLOSED',
        'ORDER_CLOSED',
        'ORDER_NONCE_TOO_LOW',
      ])
      assert.ok(examples('401')?.UNAUTHORIZED_TOKEN_EXPIRED)
      assert.ok(post!.responses['503']?.headers?.['Retry-After'])
      assert.deepEqual(examples('400', get)?.MISSING_FIELD?.value, {
        error: 'trader is required',
        code: 'MISSING_FIELD',
        field: 'trader',
      })
    },
  )
}
