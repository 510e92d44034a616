import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Errors } from 'typebox/value'
import { failedClaims, pendingClaims } from '#api/relayer/claims.ts'
import { relayerNonces } from '#api/relayer/nonces.ts'
import { relayerOperations } from '#api/relayer/operations.ts'
import { openapiDocument } from '#http/openapi.ts'

type Json = Record<string, unknown>
type Content = { schema: Json; examples?: Record<string, { value: unknown }> }
type Operation = {
  requestBody?: { content: Record<string, Content> }
  responses: Record<string, { content?: Record<string, Content> }>
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}

/** Nothing behind the routes is called: only their declarations are read. */
const behind = {} as never
const document = (await openapiDocument({ title: 'Sibyl', version: '1' }, [
  ...relayerOperations(behind),
  relayerNonces(behind, () => 0),
  pendingClaims(behind),
  failedClaims(behind),
])) as unknown as Document

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
)

function resolved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(resolved)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref } = schema as { $ref?: string }
  if ($ref !== undefined) {
    return resolved(document.components.schemas[$ref.replace('#/components/schemas/', '')])
  }
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, resolved(part)]))
}

test('the document of the relayer is valid and contains every path', async () => {
  const result = await new Validator().validate(structuredClone(document) as never)
  assert.deepEqual(result.errors ?? [], [])
  const relayer = (name: string) => `post /api/v1/relayer/${name}`
  assert.deepEqual(operations.map(([name]) => name).sort(), [
    'get /api/v1/failed-claims',
    'get /api/v1/pending-claims',
    'get /api/v1/relayer/nonces',
    relayer('batch-ctf-redemption'),
    relayer('cancel-all-before'),
    relayer('cancel-orders'),
    relayer('ctf-approval'),
    relayer('ctf-redemption'),
    relayer('propose-resolution'),
    relayer('set-delegate'),
    relayer('settle-market'),
    relayer('stablecoin-permit'),
    relayer('usdc-permit'),
  ])
})

test('every example of the relayer fits its schema, and every example of an error has success: false', () => {
  for (const [name, { requestBody, responses }] of operations) {
    const answers = Object.entries(responses).map(
      ([status, { content }]) => [status, content] as const,
    )
    for (const [where, content] of [['the request', requestBody?.content] as const, ...answers]) {
      const { schema, examples } = content?.['application/json'] ?? { schema: {} }
      for (const [title, { value }] of Object.entries(examples ?? {})) {
        const flaws = [...Errors(resolved(schema) as never, value)]
        assert.deepEqual(flaws, [], `${name}, ${where}: ${title}`)
        const failed = Number(where) >= 400 && name.includes('/relayer/')
        if (failed) assert.equal((value as { success: boolean }).success, false, `${name} ${title}`)
      }
    }
  }
})
