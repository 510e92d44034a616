import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodingFor, isJsonType } from '#http/header-values.ts'

test('JSON in UTF-8 is recognised in every spelling of its media type', () => {
  for (const type of [
    'application/json',
    'Application/JSON; Charset="UTF-8"',
    ' application/json ; charset = utf8 ; ',
    'application/json;',
  ]) {
    assert.equal(isJsonType(type), true, type)
  }
})

test('every media type other than JSON is refused, however long it is', () => {
  for (const type of [
    '',
    'text/json',
    'application/jsonx',
    'application/json; charset=latin1',
    'application/json; charset',
    'application/json; charset=utf-8=utf-8',
    'application/json; charset="utf-8',
    'application/json; charset=utf-8; boundary=x',
    'application/json;;',
    `application/json${' '.repeat(3_800)}x`,
    `application/json${' '.repeat(3_800)}`,
    `application/json${';'.repeat(3_800)}`,
  ]) {
    assert.equal(isJsonType(type), false, type.slice(0, 60))
  }
})

test('the server chooses the best encoding that the client accepts, and none that the client refuses', () => {
  const cases: [accepted: string, encoding: 'br' | 'gzip' | undefined][] = [
    ['', undefined],
    ['identity', undefined],
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['GZIP;q=0.5 , br ; q=0', 'gzip'],
    ['br;q=0.000, gzip;q=0', undefined],
    ['xbr, gzipped', undefined],
    [`${', '.repeat(2_000)}gzip`, 'gzip'],
  ]
  for (const [accepted, encoding] of cases) {
    assert.equal(encodingFor(accepted), encoding, accepted.slice(0, 60))
  }
})
