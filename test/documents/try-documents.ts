/** Tests the API documents of an exchange with the usual settings. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { API_VERSION, parseApiVersion } from '#domain/api-version.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { ROOT } from '../support/imports.ts'
import { brokenMessages, brokenOperations, contractOf, type Json } from './breaking-changes.ts'
import { typesOfOpenapi } from './openapi-types.ts'
import { documentPath, documentsOf, writtenDocument } from './served-documents.ts'
import { tryDocumentExamples } from './try-document-examples.ts'

const run = promisify(execFile)

/** Recommended rules of the linter that we do not follow, by rule and operation, with the reason. */
const EXCEPTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'operation-2xx-response': { openStream: 'a WebSocket is answered 101, and never 2xx' },
}

/** First words that the name of an operation may have. */
const VERBS = [
  ...['get', 'list', 'place', 'validate', 'cancel', 'register', 'revoke', 'sync', 'relay'],
  ...['stream', 'open', 'set'],
]

type Operation = {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly security?: readonly object[]
  readonly summary: string
}
type Openapi = {
  readonly info: { readonly version: string; readonly description: string }
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const readDocument = async (name: string): Promise<Json> =>
  JSON.parse(await readFile(documentPath(name), 'utf8')) as Json

const COMPARED = [
  ['openapi.json', brokenOperations],
  ['asyncapi.json', brokenMessages],
] as const

/**
 * Reported changes that are allowed. Two of them only correct the last document: the server has always required the
 * body and the field of a position sync. The third is intended: control characters in API key names made a database
 * server fail or broke the list of keys.
 */
const CORRECTED: ReadonlySet<string> = new Set([
  'POST /api/v1/positions/{marketId}/sync: it needs a body now',
  'POST /api/v1/positions/{marketId}/sync: body.userAddress is required now',
  'POST /api/v1/api-keys: body.name: its pattern is another',
])

export async function tryDocuments(t: TestContext, exchange: Exchange): Promise<void> {
  const served = await documentsOf(exchange)
  const openapi = served['openapi.json'] as unknown as Openapi
  const operations = Object.values(openapi.paths).flatMap((methods) => Object.values(methods))

  await t.test(
    'the documents in docs/ equal the documents that the exchange serves; npm run openapi updates them',
    async () => {
      for (const [name, document] of Object.entries(served)) {
        const written = await readFile(documentPath(name), 'utf8')
        const lines = written.split('\n')
        const other = writtenDocument(document)
          .split('\n')
          .find((line, at) => line !== lines[at])
        assert.equal(other, undefined, `docs/${name} is not what is served: npm run openapi`)
        assert.equal(written, writtenDocument(document))
      }
    },
  )

  await t.test(
    'the API version is raised if the API has additions since the last release',
    async () => {
      for (const [name, find] of COMPARED) {
        const before = await readDocument(`released/${name}`)
        const released = parseApiVersion((before.info as { version: string }).version)
        const now = parseApiVersion(API_VERSION)
        if (now?.major !== released?.major || (now?.minor ?? 0) > (released?.minor ?? 0)) continue
        // The two documents are swapped, so each addition is reported as a removal. If the API version is not higher
        // than the released one, there must be no addition.
        assert.deepEqual(find({ before: contractOf(served[name]), after: before }), [])
      }
    },
  )

  await t.test(
    'no change to the API or the stream breaks clients of the last release',
    async () => {
      for (const [name, find] of COMPARED) {
        const before = await readDocument(`released/${name}`)
        const released = parseApiVersion((before.info as { version: string }).version)
        // A new major version may break clients.
        if (parseApiVersion(API_VERSION)?.major !== released?.major) continue
        const broken = find({ before, after: served[name] })
        assert.deepEqual(
          broken.filter((each) => !CORRECTED.has(each)),
          [],
        )
      }
    },
  )

  await t.test('the API linter finds nothing except listed exceptions', async () => {
    const config = await createConfig({ extends: ['recommended'] })
    const source = JSON.stringify(openapi)
    const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config })
    const excused = new Set<string>()
    const found = problems.flatMap(({ ruleId, message, location }) => {
      const pointer = location[0]?.pointer ?? ''
      const [, path = '', method = ''] = /^#\/paths\/([^/]+)\/([^/]+)/.exec(pointer) ?? []
      const at = openapi.paths[path.replaceAll('~1', '/').replaceAll('~0', '~')]?.[method]
      const operation = at?.operationId ?? ''
      if (EXCEPTIONS[ruleId]?.[operation] === undefined) return [`${ruleId} ${pointer}: ${message}`]
      excused.add(`${ruleId} ${operation}`)
      return []
    })
    assert.deepEqual(found, [])
    const listed = Object.entries(EXCEPTIONS).flatMap(([rule, named]) =>
      Object.keys(named).map((operation) => `${rule} ${operation}`),
    )
    assert.deepEqual([...excused].sort(), listed.sort(), 'every exception is still needed')
  })

  await t.test('the examples in the OpenAPI document fit their schemas', (nested) =>
    tryDocumentExamples(nested, openapi),
  )

  await t.test(
    'operation names in the API document are verbs, and each operation has a tag with a description',
    () => {
      const names = operations.map(({ operationId }) => operationId)
      assert.equal(new Set(names).size, names.length)
      const verb = new RegExp(`^(${VERBS.join('|')})[A-Z][A-Za-z]+$`)
      for (const name of names) assert.match(name, verb)
      const used = new Set(operations.flatMap(({ tags }) => tags))
      assert.deepEqual([...used].sort(), openapi.tags.map(({ name }) => name).sort())
      for (const { tags, security, operationId } of operations) {
        assert.equal(tags.length, 1, operationId)
        assert.ok(Array.isArray(security), operationId)
      }
    },
  )

  await t.test('the API document contains the introduction for integrators', () => {
    assert.equal(openapi.info.version, API_VERSION)
    for (const heading of ['Units', 'Signing', 'Authentication', 'Errors', 'The stream']) {
      assert.match(openapi.info.description, new RegExp(`^## ${heading}$`, 'm'))
    }
  })

  await t.test('the Postman collection has a request for every operation', async () => {
    // The linter blocked this thread for long. The server may have closed the idle connection, so the first request may
    // fail.
    const answer = await eventually(() => fetch(`${exchange.url}/postman.json`))
    const collection = (await answer.json()) as {
      item: { name: string; item: { name: string }[] }[]
    }
    const named = collection.item.flatMap(({ item }) => item.map(({ name }) => name))
    assert.deepEqual(named.sort(), operations.map(({ operationId }) => operationId).sort())
  })

  await t.test('the feed of API changes is made from the changelog', async () => {
    const answer = await fetch(`${exchange.url}/api/v1/changes`)
    assert.equal(answer.headers.get('content-type'), 'application/feed+json')
    const feed = (await answer.json()) as { version: string; items: { content_text: string }[] }
    assert.equal(feed.version, 'https://jsonfeed.org/version/1.1')
    const written = (await readFile(join(ROOT, 'CHANGELOG.md'), 'utf8')).match(/^- API: /gm)
    assert.ok(written !== null && feed.items.length === written.length)
  })

  await t.test('the API returns its time in seconds and in milliseconds', async () => {
    const before = Date.now()
    const answer = await fetch(`${exchange.url}/api/v1/time`)
    const { serverTime, serverTimeMs } = (await answer.json()) as Record<string, number>
    assert.ok(serverTimeMs !== undefined && serverTimeMs >= before && serverTimeMs <= Date.now())
    assert.equal(serverTime, Math.floor(serverTimeMs / 1_000))
  })

  await t.test(
    'TypeScript types generated from the API document fit the answers',
    async (subtest) => {
      const folder = await mkdtemp(join(tmpdir(), 'sibyl-openapi-'))
      subtest.after(() => rm(folder, { recursive: true }))
      await writeFile(join(folder, 'api.ts'), await typesOfOpenapi(served['openapi.json']))
      await writeFile(
        join(folder, 'use.ts'),
        `import type { components, operations, paths } from './api.ts'
       type Json<T extends { content: { 'application/json': unknown } }> = T['content']['application/json']
       type Place = operations['placeOrder']
       export const body: Json<NonNullable<Place['requestBody']>> = {
         order: {
           marketId: '0x', trader: '0x', side: 0, outcome: 0, price: 420000, size: '10000000',
           nonce: '1', expiration: 1900000000, makerFeeRecipient: '0x',
         },
         signature: '0x',
       }
       export const status = (answer: Json<Place['responses'][200]>): string => answer.orderHash
       export const code = (error: Json<Place['responses'][400]>): string => error.code
       export const same: Place = {} as paths['/api/v1/orders']['post']
       export const question = (market: components['schemas']['Market']): string => market.question
       // @ts-expect-error: an order has a signature
       export const unsigned: Json<NonNullable<Place['requestBody']>> = { order: body.order }`,
      )
      const compilerOptions = {
        ...{ strict: true, noEmit: true, target: 'es2024', module: 'nodenext', types: [] },
        // Browser types are left out, because checking them takes most of the time.
        lib: ['es2024'],
        allowImportingTsExtensions: true,
      }
      const config = { compilerOptions, files: ['api.ts', 'use.ts'] }
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
      const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
      const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch(
        (failed: { stdout: string }) => failed,
      )
      assert.equal(stdout, '')
    },
  )
}
