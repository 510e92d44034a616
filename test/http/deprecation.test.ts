import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withDeprecations } from '#http/deprecation.ts'
import { openapiDocument } from '#http/openapi.ts'
import { startTestFront, testRoutes } from './front-fixture.ts'

const routes = testRoutes({ wait: async () => undefined })
const NEEDS = 'GET /needs'

test('an answer of a deprecated route has headers with the deprecation date, the end date and a link', async (t) => {
  const link = 'https://example.org/needs'
  const marked = withDeprecations(routes, {
    [NEEDS]: { since: '2026-11-18', sunset: '2027-06-01', link },
  }).find(({ path }) => path === '/needs')
  assert.ok(marked !== undefined)
  const { url } = await startTestFront(t, {}, { routes: [{ ...marked, path: '/old' }] })
  for (const query of ['', `?trader=0x${'1'.repeat(40)}`]) {
    const { headers } = await fetch(`${url}/old${query}`)
    assert.equal(headers.get('deprecation'), '@1794960000')
    assert.equal(headers.get('sunset'), 'Tue, 01 Jun 2027 00:00:00 GMT')
    assert.equal(headers.get('link'), `<${link}>; rel="deprecation"`)
  }
  const { headers } = await fetch(`${url}/needs`)
  assert.equal(headers.get('deprecation'), null)
})

test('the API document marks a deprecated operation', async () => {
  const table = { [NEEDS]: { since: '2026-11-18' } }
  const info = { title: 'Test', version: '1.0' }
  const { paths } = (await openapiDocument(info, withDeprecations(routes, table))) as unknown as {
    paths: Record<string, Record<string, { deprecated?: boolean }>>
  }
  assert.equal(paths['/needs']?.get?.deprecated, true)
  assert.equal(paths['/orders']?.post?.deprecated, undefined)
})

test('the start fails if a deprecation has no date or belongs to an unknown route', async (t) => {
  assert.throws(
    () => withDeprecations(routes, { 'GET /gone': { since: '2026-11-18' } }),
    /must exist/,
  )
  for (const since of ['soon', '2026-13-01']) {
    const [first] = withDeprecations(routes, { 'GET /echo/{marketId}': { since } })
    assert.ok(first !== undefined)
    await assert.rejects(startTestFront(t, {}, { routes: [first] }), /day/)
  }
})
