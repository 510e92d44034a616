import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiFit } from '#client/api-fit.ts'
import { API_VERSION, parseApiVersion } from '#domain/api-version.ts'

test('an API version is valid only if it consists of two numbers with a dot', () => {
  assert.ok(parseApiVersion(API_VERSION) !== undefined)
  for (const text of ['', '1', '1.2.3', 'v1.2', '1.', '-1.0', '1.2 ']) {
    assert.equal(parseApiVersion(text), undefined, text)
  }
})

test('a client accepts an exchange with an equal API version or a newer minor version', () => {
  for (const exchange of ['2.3', '2.4', '2.10']) {
    assert.deepEqual(apiFit(exchange, '2.3'), { fits: true, exchange, client: '2.3', why: '' })
  }
  assert.ok(apiFit(API_VERSION).fits)
})

test('the client reports why it cannot use an exchange with an incompatible API version', () => {
  const why = (exchange?: string) => {
    const fit = apiFit(exchange, '2.3')
    assert.equal(fit.fits, false)
    return fit.why
  }
  assert.match(why('2.2'), /has API version 2\.2.*made for API 2\.3.*does not have yet/)
  assert.match(why('3.0'), /a newer client is needed/)
  assert.match(why('1.9'), /an older client is needed/)
  assert.match(why('two'), /not a version/)
  assert.match(why(), /does not publish its API version/)
})
